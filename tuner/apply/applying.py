"""Applies a recommended configuration, or rolls back to the previous one.

Whatever interrupts this, one of the two configurations ends up in force, and the store says which.

The decision is a single write to the store. Until the store says that an application is committing,
every host returns to its previous configuration, on its own if need be. After that the application
is completed, if necessary by the next process that takes the testbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tuner.applications import Application
from tuner.apply.actor import Actor, as_stored, complete_or_undo, failed, reason_of, restore
from tuner.apply.destination import Destination, recommended
from tuner.apply.open_testbed import OpenTestbed, open_testbed
from tuner.apply.plan import (
    ApplyPlan,
    PartPlan,
    beyond_limits,
    changed_parts,
    notes,
    plan_identity,
    unknown,
)
from tuner.apply.rollback_checks import check_newest, check_replaced, what_is_replaced
from tuner.errors import ConflictError, SpecError, StalePlanError, TunerError
from tuner.identifiers import new_application_id
from tuner.interruption import check
from tuner.model import Campaign, Configuration
from tuner.records.differences import differences
from tuner.results.expiry import with_expiry
from tuner.run.holding import LeaseKeeper
from tuner.states import UNFINISHED, ApplicationState
from tuner.stop_signals import holding_off_stops
from tuner.store import NewEvent

#: The reply to a stop signal while it is made permanent.
_COMMITTING = "all checks have passed, so it stays; completing that first takes seconds"


def make_plan(
    actor: Actor,
    campaign: Campaign,
    destination: Destination,
    *,
    stepwise: bool = False,
    only_look: bool = False,
) -> tuple[ApplyPlan, Application | None]:
    """Plan the change from the configuration in effect to the one that a campaign recommends.

    No setting is changed, except to complete or undo an unfinished application there: ``only_look``
    refuses that. The plan is stored as an application, which is None when there is nothing to
    change. Raises TunerError: NotFoundError when nothing is recommended, SpecError when it sets
    what no program accepts, ConflictError when the testbed is in use or must not be changed.
    """
    answer = recommended(with_expiry(actor.store, campaign))
    spaces = destination.needs.spaces
    if wrong := unknown(answer.configuration, spaces):
        raise _inapplicable(wrong)
    now = datetime.now(UTC)
    name = new_application_id(now)
    with (
        actor.holding(campaign.id, destination, only_look=only_look),
        open_testbed(destination, name, actor.say) as testbed,
    ):
        before = testbed.in_effect()
        wrong, inherited = beyond_limits(before, answer.configuration, spaces)
        if wrong:
            raise _inapplicable(wrong)
        sentences = notes(
            before,
            answer.baseline,
            testbed.target.identity,
            actor.store.measured_programs(campaign.id),
            destination.other,
            testbed.remarks,
            answer.notes,
            inherited,
        )
        plan = ApplyPlan(
            campaign=campaign.id,
            testbed=destination.name,
            label=destination.label,
            programs=testbed.target.identity,
            before=before,
            after=answer.configuration,
            parts=_parts(testbed, before, answer.configuration),
            steps=testbed.steps(before, answer.configuration, stepwise=stepwise),
            notes=sentences,
            stepwise=stepwise,
            clients=destination.clients,
        )
    if plan.is_empty:
        return plan, None
    application = Application(
        id=name,
        campaign=campaign.id,
        state=ApplicationState.PLANNED,
        testbed=destination.name,
        section=destination.document,
        plan=plan.identity,
        stepwise=stepwise,
        programs=plan.programs,
        before=before,
        after=plan.after,
        planned=now,
        planned_by=actor.by,
        changed=now,
        changed_by=actor.by,
        clients=destination.clients,
    )
    message = f"{actor.by} planned to apply trial {answer.trial} on {destination.label} ({name})"
    event = NewEvent(now, "apply-planned", message, {"application": name, "plan": plan.identity})
    return plan, actor.applications.add(application, event)


def _inapplicable(reasons: Sequence[str]) -> SpecError:
    return SpecError(f"the recommendation cannot be applied: {'; '.join(reasons)}")


def _parts(
    testbed: OpenTestbed, before: Configuration, after: Configuration
) -> tuple[PartPlan, ...]:
    changed, changes = changed_parts(before, after), differences(before, after)[0]
    return tuple(
        PartPlan(
            name=name,
            program=part.space.program,
            changes=tuple(c for c in changes if c.name.partition(".")[0] == name),
            old=tuple(part.space.render(before.part(name))),
            new=tuple(part.space.render(after.part(name))),
            outlives_restart=part.outlives_restart,
            where_kept=part.where_kept,
            how_changed=part.how_changed,
        )
        for name, part in testbed.parts.items()
        if name in changed
    )


def carry_out(actor: Actor, application: Application) -> Application:
    """Bring a planned configuration into force; return the stored application.

    On any failure or stop signal (KeyboardInterrupt), the previous configuration is restored first.
    Raises StalePlanError when the configuration in effect has changed since the plan was made, and
    other TunerErrors.
    """
    destination = actor.destination(application)
    check_planned(application)
    with actor.holding(application.campaign, destination) as holding:
        message = f"{actor.by} applies {application.id} on {destination.label}"
        is_back = True
        result: Application | None = None
        try:
            # Inside, since a stop signal during this write takes effect after it.
            applying = ApplicationState.APPLYING
            application = actor.move(application, applying, "applying", message, "")
            with actor.opening(application, destination) as testbed:
                check_fresh(application, testbed)
                is_back = False
                try:
                    _change(actor, application, testbed, holding)
                    with holding_off_stops(actor.say, _COMMITTING):
                        result = _commit(actor, application, testbed, destination)
                    return result
                except BaseException:
                    if result is None:
                        with holding_off_stops(actor.say):
                            testbed.restore(application.before)
                        is_back = True
                    raise
        except (TunerError, KeyboardInterrupt) as problem:
            if result is None:
                with holding_off_stops(actor.say):
                    _fail(actor, application, destination, problem, is_back=is_back)
                raise
            # Decided, and made permanent on every host: a later failure is only reported.
            actor.say(f"applied, but {reason_of(problem)}")
            return result


def check_planned(application: Application) -> None:
    """Raise ConflictError for an application that has been carried out already."""
    name, state = application.id, application.state
    if state is ApplicationState.APPLIED:
        raise ConflictError(f"{name} is in force; to undo it: fstune rollback {name}")
    if state in (ApplicationState.FAILED, ApplicationState.ROLLED_BACK):
        raise ConflictError(
            f"{name} is {state}; for a new plan: fstune apply {application.campaign}"
        )


def _change(
    actor: Actor, application: Application, testbed: OpenTestbed, holding: LeaseKeeper
) -> None:
    """Bring the configuration into effect, and check that the service works with it."""
    before, after = application.before, application.after
    changes = testbed.steps(before, after, stepwise=application.stepwise)
    now = before
    for number, configuration in enumerate(changes, start=1):
        check()
        holding.check()
        if len(changes) > 1:
            names = ", ".join(one.name for one in differences(now, configuration)[0])
            actor.say(f"step {number} of {len(changes)}: {names}")
        testbed.change(configuration, changed_parts(now, configuration))
        testbed.check_health()
        now = configuration
    check()
    holding.check()


def look_again(actor: Actor, application: Application) -> None:
    """Check on the testbed that a plan can still be carried out, without changing any setting.
    Raises StalePlanError when the configuration in effect has changed, and other TunerErrors.
    """
    destination = actor.destination(application)
    with (
        actor.holding(application.campaign, destination),
        actor.opening(application, destination) as testbed,
    ):
        check_fresh(application, testbed)


def check_fresh(application: Application, testbed: OpenTestbed) -> None:
    """Raise StalePlanError when the configuration or programs differ from those of the plan."""
    before, programs = testbed.target.baseline, testbed.target.identity
    now = plan_identity(
        application.testbed,
        programs,
        before,
        application.after,
        application.stepwise,
        application.clients,
    )
    if now == application.plan:
        return
    names = [one.name for one in differences(application.before, before)[0]]
    why = f"{', '.join(names)} changed" if names else f"the programs are now {programs}"
    raise StalePlanError(
        f"the configuration in effect is not the one that {application.id} was planned from "
        f"({why}): make a new plan"
    )


def _commit(
    actor: Actor, application: Application, testbed: OpenTestbed, destination: Destination
) -> Application:
    """Decide that the configuration stays, and make it permanent on every host."""
    message = f"{application.id} is in effect on {destination.label}, and will stay"
    actor.move(application, ApplicationState.COMMITTING, "apply-committing", message, "")
    testbed.keep(changed_parts(application.before, application.after))
    message = f"{actor.by} applied {application.id} on {destination.label}"
    return actor.move(application, ApplicationState.APPLIED, "applied", message, "")


def _fail(
    actor: Actor,
    application: Application,
    destination: Destination,
    problem: BaseException,
    *,
    is_back: bool,
) -> None:
    """Store that an application did not come into force. Unless the previous configuration is known
    to be restored, complete or undo it, now or later. Does nothing if it was never begun, or if
    another process that has taken over the testbed has settled it.
    """
    why = reason_of(problem)
    application = actor.applications.get(application.id)
    if application.state not in UNFINISHED:
        return
    if is_back:
        failed(actor, application, destination, why)
        return
    try:
        complete_or_undo(actor, application, why=why, destination=destination, again=True)
    except TunerError as worse:
        actor.say(
            f"the previous settings may not be back on every host: {worse}; each host puts itself "
            "back when fstune has been silent for some time; make sure that all have with: fstune "
            f"rollback {application.id}"
        )


def roll_back(
    actor: Actor,
    application: Application,
    left_out: Sequence[str] = (),
    *,
    replace: bool = False,
) -> Application:
    """Restore the configuration from before an application; return the stored application.

    This includes interrupted applications, whether they were decided on or not. ``left_out``:
    clients that are gone for good and no longer in the testbed file; they are not restored, and the
    stored reason names them. ``replace``: also where somebody else has changed something since.
    Raises SpecError when the application has no such clients, ConflictError when it is not in
    force, another one was applied after it, or something was changed since; TunerError when a host
    fails: it can be repeated then.
    """
    destination = actor.destination(application, left_out)
    cut_off = application.state in UNFINISHED
    with actor.holding(application.campaign, destination, own=application.id):
        application = as_stored(actor, application)
        if cut_off and application.state is not ApplicationState.APPLIED:
            return application  # already undone in ``holding``
        check_newest(actor, application)
        with actor.opening(application, destination, putting_back=True) as testbed:
            changes = what_is_replaced(actor, application, testbed)
            if not replace:
                check_replaced(application, changes)
            for sentence in changes:
                actor.say(f"changed since, and replaced: {sentence}")
            with holding_off_stops(actor.say):
                message = f"{actor.by} rolls {application.id} back on {destination.label}"
                if changes:
                    message += f"; changed since, and replaced: {'; '.join(changes)}"
                rolling = ApplicationState.ROLLING_BACK
                application = actor.move(application, rolling, "rolling-back", message, "")
                remark = restore(testbed, application.before, destination)
                message = f"{actor.by} rolled {application.id} back on {destination.label}"
                state = ApplicationState.ROLLED_BACK
                application = actor.move(application, state, "rolled-back", message, remark)
            testbed.check_health()
        return application
