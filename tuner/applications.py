"""Applications: configurations that somebody brings into force on a testbed, as they are recorded.

Pure records. What a plan says is in ``tuner.apply``, what becomes of it is kept by the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tuner.model import Configuration
from tuner.states import ApplicationState


@dataclass(frozen=True, slots=True)
class Application:
    """The recommended configuration of a campaign, brought into force or planned to be.

    ``reason``: why it is in its state. ``testbed``: the name of the place; ``section``: how it is
    reached, as the campaign file has it (JSON). ``plan``: the identity of what was planned: a hash
    of what was in effect (``before``) and what shall be (``after``). ``stepwise``: one setting
    after the other. ``programs``: programs and versions found there. ``planned``, ``changed``: when
    it was planned and last changed its state, and by whom. ``asked_by``: who has asked for its next
    state over HTTP, until it has begun.
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
