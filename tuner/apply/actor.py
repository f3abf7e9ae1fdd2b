"""Who applies or rolls back, and how interrupted applications are completed or undone.

That is done before anything else happens on their testbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tuner.applications import Application
from tuner.apply.destination import Destination
from tuner.apply.open_testbed import OpenTestbed, Say, open_testbed
from tuner.apply.plan import changed_parts
from tuner.apply.waiting import wait_until_free
from tuner.errors import ConflictError, StoreError
from tuner.model import Configuration
from tuner.run.holding import LeaseKeeper, hold_testbeds
from tuner.settings import DatabaseSettings
from tuner.states import UNFINISHED, ApplicationState
from tuner.stop_signals import holding_off_stops, stop_signals
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications

#: The reply to a stop signal, true of an application, a rollback and a verification.
STOPPING = "stopping: what is under way is cut off, and no change is left half made"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who applies or rolls back, and where that is recorded. ``by``: a person, for the record;
    ``say``: receives a message for each step.
    """

    store: Store
    state_directory: Path
    by: str
    say: Say

    @property
    def applications(self) -> Applications:
        """The stored applications."""
        return Applications(self.store)

    def destination(self, application: Application, left_out: Sequence[str] = ()) -> Destination:
        """The testbed of an application; ``left_out``: see ``Destination``."""
        campaign = self.store.campaign(application.campaign)
        return Destination.of_application(
            campaign, application, self.state_directory, left_out=left_out
        )

    @contextmanager
    def holding(
        self, campaign: str, destination: Destination, *, own: str = "", only_look: bool = False
    ) -> Iterator[LeaseKeeper]:
        """Hold a testbed, after waiting for a process that is about to release it and
        completing or undoing unfinished applications there. ``own``: the application whose
        destination this is. Raises ConflictError when it is in use, with ``only_look`` also when an
        application is unfinished there.
        """
        limit_s = DatabaseSettings().takeover_after_s
        with stop_signals(self.say, STOPPING):
            wait_until_free(self.store, campaign, destination.name)
            with hold_testbeds(self.store, campaign, [destination.name], limit_s) as holding:
                for application in self.applications.unfinished([destination.name]):
                    if only_look:
                        raise ConflictError(application.cut_off)
                    its = destination if application.id == own else None
                    complete_or_undo(self, application, destination=its)
                yield holding

    @contextmanager
    def opening(
        self, application: Application, destination: Destination, *, putting_back: bool = False
    ) -> Iterator[OpenTestbed]:
        """See ``open_testbed``. What its checks have left there is stored."""
        place = open_testbed(destination, application.id, self.say, putting_back=putting_back)
        testbed: OpenTestbed | None = None
        try:
            with place as testbed:
                yield testbed
        finally:
            with suppress(StoreError):  # it was said; a failure must not hide another one
                for sentence in () if testbed is None else testbed.left:
                    data = {"application": application.id}
                    event = NewEvent(datetime.now(UTC), "apply-leftovers", sentence, data)
                    self.store.add_event(application.campaign, event)

    def move(
        self,
        application: Application,
        state: ApplicationState,
        kind: str,
        message: str,
        reason: str,
        *,
        keep_request: bool = False,
    ) -> Application:
        """Store the new state of an application. ``keep_request``: the next state was requested."""
        event = NewEvent(datetime.now(UTC), kind, message, {"application": application.id})
        return self.applications.move(
            application.id, state, reason, self.by, event, keep_request=keep_request
        )


def failed(
    actor: Actor, application: Application, destination: Destination, why: str
) -> Application:
    """Store that an application did not come into force, and the reason."""
    message = f"{application.id} did not come into force on {destination.label}: {why}"
    return actor.move(application, ApplicationState.FAILED, "apply-failed", message, why)


def complete_or_undo(
    actor: Actor,
    application: Application,
    *,
    why: str = "it was interrupted",
    destination: Destination | None = None,
    again: bool = False,
) -> Application:
    """Complete or undo an interrupted application. A committing application stays if it is in
    effect on every host; in every other case the previous configuration is restored. The caller
    holds the testbed. ``again``: this process has tried it before, so what its checks have left is
    removed only afterwards. Raises TunerError when a host fails: then that is done later.
    """
    if application.state not in UNFINISHED:
        return application
    if destination is None:
        destination = actor.destination(application)
    before, after = application.before, application.after
    states = ApplicationState
    with (
        actor.opening(application, destination, putting_back=True) as testbed,
        holding_off_stops(actor.say),
    ):
        # Later states are reached when all checks have passed.
        checking = application.state is states.APPLYING
        testbed.may_have_files = checking and not again
        if application.state is states.COMMITTING and testbed.stays(before, after):
            testbed.keep(changed_parts(before, after))
            message = (
                f"{application.id} is in force on {destination.label}: {why} after this had been "
                "decided"
            )
            # Whoever asked for a rollback still wants it.
            return actor.move(
                application, states.APPLIED, "applied", message, "", keep_request=True
            )
        testbed.check_undoable(before, after)
        remark = restore(testbed, before, destination)
        testbed.may_have_files |= checking and again
    if application.state is states.ROLLING_BACK:
        message = f"{application.id} is rolled back on {destination.label}"
        return actor.move(application, states.ROLLED_BACK, "rolled-back", message, remark)
    return failed(actor, application, destination, f"{why}; {remark}" if remark else why)


def restore(testbed: OpenTestbed, before: Configuration, destination: Destination) -> str:
    """As ``OpenTestbed.restore``; what is returned also names the clients that are left out."""
    remark = testbed.restore(before)
    return "; ".join(filter(None, (destination.not_restored, remark)))


def finish(actor: Actor, application: Application) -> Application:
    """As ``complete_or_undo``, holding the testbed; return the application as stored."""
    destination = actor.destination(application)
    with actor.holding(application.campaign, destination):
        return as_stored(actor, application)


def as_stored(actor: Actor, application: Application) -> Application:
    """The application as stored once its testbed is held. Raises ConflictError when it is still
    unfinished, so that it is not reported as finished.
    """
    now = actor.applications.get(application.id)
    if now.state in UNFINISHED:
        raise ConflictError(f"application {now.id} is still {now.state}: it is not finished")
    return now


def reason_of(problem: BaseException) -> str:
    """The reason to report for something that failed or was stopped."""
    if isinstance(problem, KeyboardInterrupt):
        return f"stopped by {str(problem) or 'Ctrl-C'}"
    return str(problem) or type(problem).__name__


def renamed(actor: Actor, application: Application) -> Actor:
    """The same, but in the name of the person who requested the application, if any."""
    return actor if application.asked_by is None else replace(actor, by=application.asked_by)
