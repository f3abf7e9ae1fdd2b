"""Applications on a simulated testbed: whatever happens, either the old or the new configuration is
in force, and the store says which.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.apply.failing import Broken, breaking
from tests.unit.campaign.campaigns import THREADS, failing, spec
from tuner.applications import Application
from tuner.apply.actor import finish
from tuner.apply.applying import carry_out, look_again, make_plan, roll_back
from tuner.apply.open_testbed import OpenTestbed
from tuner.errors import (
    ConfigurationError,
    ConflictError,
    NotFoundError,
    SpecError,
    StalePlanError,
    TestbedError,
    WorkloadError,
)
from tuner.model import Answer, Campaign, Value
from tuner.services.lasting import JournalState
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated.testbed import _SimulatedPart as Part
from tuner.states import ApplicationState
from tuner.store.applications import Applications
from tuner.store.deletion import delete_campaign

STATES = ApplicationState


def test_a_plan_shows_what_changes_and_changes_nothing(desk: Desk) -> None:
    campaign = desk.campaign()
    plan, application = make_plan(desk.actor, campaign, desk.destination(campaign))
    assert application is not None
    (part,) = plan.parts
    assert part.name == "fileserver"
    assert [(c.name, c.old, c.new) for c in part.changes] == [
        ("fileserver.dir_buffers", None, 300),
        ("fileserver.threads", 64, 200),
    ]
    assert application.plan == plan.identity
    assert application.planned_by == "alice"
    assert application.state is STATES.PLANNED
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_what_was_found_beyond_the_limits_of_a_program_stays_and_is_noted(desk: Desk) -> None:
    """Its administrator has set it, and the recommendation does not change it."""
    beyond: dict[str, Value] = {THREADS: 30000, "cache_manager.daemons": 3}
    after = beyond | {"fileserver.dir_buffers": 300}
    campaign = recommending(desk.store, spec(found=beyond), beyond, after)
    plan, application = make_plan(desk.actor, campaign, desk.destination(campaign))
    assert application is not None
    (note,) = plan.notes
    assert note.startswith("fileserver: threads: 30000 is above ")
    assert note.endswith("; it is set already, and stays")
    carry_out(desk.actor, application)
    assert desk.in_force(campaign) == after


def test_a_value_beyond_the_limits_of_a_program_is_not_set(desk: Desk) -> None:
    """Not even if the record of the campaign, which may be imported, has found it."""
    beyond = {THREADS: 30000}
    campaign = recommending(desk.store, spec(found=ORIGINAL), ORIGINAL | beyond, CANDIDATE | beyond)
    with pytest.raises(SpecError, match="cannot be applied: fileserver: threads: 30000 is above"):
        make_plan(desk.actor, campaign, desk.destination(campaign))
    assert desk.actor.applications.all() == []


@pytest.mark.slow
def test_applied_and_rolled_back(desk: Desk) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    assert applied.state is STATES.APPLIED
    assert applied.before.as_dict() == ORIGINAL
    assert desk.in_force(campaign) == CANDIDATE
    assert make_plan(desk.actor, campaign, desk.destination(campaign))[1] is None
    with pytest.raises(ConflictError, match="is in force; to undo it: fstune rollback a"):
        carry_out(desk.actor, applied)
    back = roll_back(desk.actor, applied)
    assert (back.state, back.changed_by) == (STATES.ROLLED_BACK, "alice")
    assert desk.in_force(campaign) == ORIGINAL
    kinds = [kind for kind in desk.events(campaign) if kind != "told"]
    assert kinds == [
        "campaign-created",
        "apply-planned",
        "applying",
        "apply-committing",
        "applied",
        "rolling-back",
        "rolled-back",
    ]
    with pytest.raises(ConflictError, match="is not in force"):
        roll_back(desk.actor, back)


@pytest.mark.slow
def test_step_by_step_each_setting_is_checked(desk: Desk) -> None:
    campaign = desk.campaign()
    desk.apply(campaign, stepwise=True)
    checks = [message for message in desk.messages if message.startswith(("step", "checking"))]
    assert checks == [
        "step 1 of 2: fileserver.dir_buffers",
        "checking that every client can write and read",
        "step 2 of 2: fileserver.threads",
        "checking that every client can write and read",
    ]
    assert desk.in_force(campaign) == CANDIDATE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "error"), [("start", ConfigurationError), ("workload", WorkloadError)]
)
@pytest.mark.parametrize("stepwise", [False, True])
def test_a_configuration_that_does_not_work_is_rolled_back(
    desk: Desk, how: str, error: type[Exception], stepwise: bool
) -> None:
    campaign = desk.campaign(failing(how))
    planned = desk.plan(campaign, stepwise=stepwise)
    with pytest.raises(error):
        carry_out(desk.actor, planned)
    application = desk.actor.applications.get(planned.id)
    assert application.state is STATES.FAILED
    assert "fileserver.threads" in application.reason
    assert desk.in_force(campaign) == ORIGINAL
    with pytest.raises(ConflictError, match=f"is failed; .*: fstune apply {campaign.id}$"):
        carry_out(desk.actor, application)


def stop_during(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, which: signal.Signals
) -> None:
    """Send a stop signal when this function is called by an application, and check its end."""
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    stop = breaking(monkeypatch, owner, name, lambda: os.kill(os.getpid(), which))
    with stop, pytest.raises(KeyboardInterrupt):
        carry_out(desk.actor, planned)
    application = desk.actor.applications.get(planned.id)
    assert (application.state, application.reason) == (STATES.FAILED, f"stopped by {which.name}")
    assert desk.in_force(campaign) == ORIGINAL


def test_a_stop_signal_rolls_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_during(desk, monkeypatch, OpenTestbed, "check_health", signal.SIGINT)
    (reply,) = (message for message in desk.messages if message.startswith("SIGINT"))
    assert "no change is left half made" in reply
    assert "resume" not in reply


def test_a_stop_signal_while_the_beginning_is_stored_leaves_nothing_unfinished(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_during(desk, monkeypatch, Applications, "_after_others", signal.SIGTERM)


@pytest.mark.slow
def test_a_rollback_says_once_that_it_restores(desk: Desk) -> None:
    """It restores twice: what a campaign may have left open, and then the application."""
    applied = desk.apply(desk.campaign())
    desk.messages.clear()
    roll_back(desk.actor, applied)
    steps = [message for message in desk.messages if message.startswith("restoring")]
    assert steps
    assert len(steps) == len(set(steps))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def not_closed() -> None:
    raise TestbedError("no answer any more")


@pytest.mark.parametrize(
    ("kind", "method", "do", "message"),
    [
        (SimulatedTestbed, "close", not_closed, "applied, but no answer any more"),
        (OpenTestbed, "clean", not_closed, "applied, but no answer any more"),
        (OpenTestbed, "clean", interrupt, "applied, but stopped by SIGINT"),
        (
            OpenTestbed,
            "keep",
            interrupt,
            "SIGINT: all checks have passed, so it stays; completing that first takes seconds",
        ),
    ],
)
def test_a_failure_after_the_decision_undoes_nothing(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    method: str,
    do: Callable[[], None],
    message: str,
) -> None:
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    with breaking(monkeypatch, kind, method, do):
        assert carry_out(desk.actor, planned).state is STATES.APPLIED
    assert message in desk.messages
    assert desk.actor.applications.get(planned.id).state is STATES.APPLIED
    assert desk.in_force(campaign) == CANDIDATE


def die() -> None:
    raise Broken


#: Where a process may die, and the state of the application once it has been settled.
DEATHS: list[tuple[type, str, int, ApplicationState]] = [
    (Part, "apply", 0, STATES.FAILED),
    (OpenTestbed, "check_health", 0, STATES.FAILED),
    (Part, "keep", 0, STATES.APPLIED),
    (Part, "keep", 1, STATES.APPLIED),
]


def cut_off(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    campaign: Campaign,
    kind: type,
    method: str,
    *,
    after: int = 0,
) -> Application:
    """Die while an application is carried out, before a call of this method; see ``breaking``. A
    dead process restores nothing; here ``restore`` fails too, to the same effect.
    """
    planned = desk.plan(campaign)
    with (
        breaking(monkeypatch, kind, method, die, after=after),
        breaking(monkeypatch, OpenTestbed, "restore", die),
        pytest.raises(Broken),
    ):
        carry_out(desk.actor, planned)
    return planned


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "method", "after", "state"), DEATHS)
def test_a_death_while_applying_is_settled_by_the_next_process(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    method: str,
    after: int,
    state: ApplicationState,
) -> None:
    campaign = desk.campaign(candidate=CANDIDATE | {"cache_manager.daemons": 5})
    planned = cut_off(desk, monkeypatch, campaign, kind, method, after=after)
    assert desk.actor.applications.get(planned.id).state in (STATES.APPLYING, STATES.COMMITTING)
    settled = finish(desk.actor, desk.actor.applications.get(planned.id))
    assert settled.state is state
    new = state is STATES.APPLIED
    assert desk.in_force(campaign) == (dict(settled.after.items) if new else ORIGINAL)


def decided_in_part(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> tuple[Campaign, Application]:
    """Interrupt an application after the first part has been made permanent."""
    campaign = desk.campaign(candidate=CANDIDATE | {"cache_manager.daemons": 5})
    return campaign, cut_off(desk, monkeypatch, campaign, Part, "keep", after=1)


@pytest.mark.slow
def test_a_decision_is_undone_on_all_hosts_when_one_has_restored_itself(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, planned = decided_in_part(desk, monkeypatch)
    testbed = desk.destination(campaign).lasting()
    parts = testbed.open(
        desk.destination(campaign).needs.workload, lambda message: None
    ).target.parts
    part = parts["cache_manager"]
    assert isinstance(part, Part)
    assert part.journals(planned.id) == {JournalState.OPEN}
    part.restore()
    # Any other use of the testbed settles it as well.
    make_plan(desk.actor, campaign, desk.destination(campaign))
    assert desk.actor.applications.get(planned.id).state is STATES.FAILED
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_decision_that_was_cut_off_is_rolled_back_when_asked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, planned = decided_in_part(desk, monkeypatch)
    back = roll_back(desk.actor, desk.actor.applications.get(planned.id))
    assert back.state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_rollback_that_was_cut_off_is_finished(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign(candidate=CANDIDATE | {"cache_manager.daemons": 5})
    applied = desk.apply(campaign)
    with breaking(monkeypatch, Part, "reopen", die, after=1), pytest.raises(Broken):
        roll_back(desk.actor, applied)
    application = desk.actor.applications.get(applied.id)
    assert application.state is STATES.ROLLING_BACK
    assert roll_back(desk.actor, application).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_stale_plan_is_refused(desk: Desk) -> None:
    campaign = desk.campaign()
    first, second = desk.plan(campaign), desk.plan(campaign)
    look_again(desk.actor, first)
    carry_out(desk.actor, first)
    for use in (look_again, carry_out):
        with pytest.raises(StalePlanError, match=r"fileserver.threads changed\): make a new plan"):
            use(desk.actor, second)
    assert desk.actor.applications.get(second.id).state is STATES.FAILED
    assert desk.in_force(campaign) == CANDIDATE


@pytest.mark.slow
def test_only_the_newest_is_rolled_back(desk: Desk) -> None:
    first = desk.campaign(name="shared")
    second = desk.campaign(candidate=CANDIDATE | {"cache_manager.daemons": 5}, name="shared")
    below, above = desk.apply(first), desk.apply(second)
    with pytest.raises(ConflictError, match=f"{above.id} was applied on this testbed after"):
        roll_back(desk.actor, below)
    roll_back(desk.actor, above)
    assert desk.in_force(first) == CANDIDATE
    roll_back(desk.actor, below)
    assert desk.in_force(first) == ORIGINAL


def test_a_campaign_without_a_recommendation_is_not_applied(desk: Desk) -> None:
    from tests.recommending import recommending
    from tests.unit.campaign.campaigns import spec

    none = Answer.NO_IMPROVEMENT
    campaign = recommending(desk.store, spec(found=ORIGINAL), ORIGINAL, ORIGINAL, none)
    with pytest.raises(NotFoundError, match="there is nothing to apply"):
        make_plan(desk.actor, campaign, desk.destination(campaign))


@pytest.mark.slow
def test_a_campaign_in_force_is_not_deleted(desk: Desk) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    with pytest.raises(ConflictError, match=f"fstune rollback {applied.id}"):
        delete_campaign(desk.store, campaign.id)
    roll_back(desk.actor, applied)
    delete_campaign(desk.store, campaign.id)
    assert desk.actor.applications.all() == []
