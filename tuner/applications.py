"""Applications: records of configurations that somebody puts into force on a testbed.

Plans are made in ``tuner.apply``; the store keeps the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tuner.model import Configuration
from tuner.states import ApplicationState


@dataclass(frozen=True, slots=True)
class Application:
    """The recommended configuration of a campaign that was, or is planned to be, put into force.

    ``reason``: why it is in its state. ``testbed``: the name of the testbed; ``section``: how it is
    reached, as in the campaign file (JSON). ``plan``: the identity of the plan, a hash of the
    configuration in effect when it was made (``before``) and the one to apply (``after``).
    ``stepwise``: change one setting after the other. ``programs``: programs and versions found
    there. ``planned``, ``changed``: when it was planned and when its state last changed, and by
    whom. ``asked_by``: who requested its next state over HTTP, until that has begun. ``clients``:
    the client hosts of the testbed, sorted; empty if its name determines them, or if an earlier
    release did not store them.
    """

    id: str
    campaign: str
    state: ApplicationState
    testbed: str
    section: str
    plan: str
    stepwise: bool
    programs: str
    before: Configuration
    after: Configuration
    planned: datetime
    planned_by: str
    changed: datetime
    changed_by: str
    reason: str = ""
    asked_by: str | None = None
    clients: tuple[str, ...] = ()

    @property
    def cut_off(self) -> str:
        """What to do first on a testbed where this application was cut off."""
        todo = f"undo it first: fstune rollback {self.id}"
        if self.state is ApplicationState.COMMITTING:
            todo = (
                f"finish it first with fstune apply {self.id}, or undo it with fstune rollback "
                f"{self.id}"
            )
        return (
            f"application {self.id} of campaign {self.campaign} was cut off on this testbed; {todo}"
        )
