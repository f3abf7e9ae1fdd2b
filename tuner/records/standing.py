"""Where a campaign stands, and who is told while it runs.

Observers never end a campaign: a terminal that went away or a closed pipe silences them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tuner.model import BlockKind, Configuration, Event
from tuner.records.estimate import Estimate


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial in the race, the baseline among them.

    ``state``: a word (``incumbent``, ``racing``); ``changes``: what differs from the baseline,
    short; ``blocks``: how many the estimate rests on; ``estimate``: against the baseline.
    """

    trial: int
    origin: str
    state: str
    blocks: int
    changes: str
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class DroppedTrial:
    """A trial that has left the race, and why."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """What looks best so far by all measurements together; a guess that steers the search, and no
    claim. ``changes``: what differs from the baseline, short. ``estimate``: against the baseline,
    with the interval of 95% of what is believed.
    """

    configuration: Configuration
    changes: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a campaign stands.

    ``block`` counts from 1 and is the one being measured, or the last one; ``expected_left_s``
    is None while unknown; ``measurements`` of at most ``budget``, None where only others know it;
    ``estimated``: it is how many the time allows at the pace so far, or a comparison needs.
    ``rows`` and ``dropped``: the most important first; a low terminal shows only the first ones.
    ``best``: what looks best; ``certified``: the trial that is recommended already, while the
    search goes on.
    """

    race: int
    block: int
    measurements: int
    budget: int | None
    elapsed_s: float
    expected_left_s: float | None
    kind: BlockKind = BlockKind.SEARCH
    rows: tuple[LiveTrial, ...] = ()
    dropped: tuple[DroppedTrial, ...] = ()
    best: Candidate | None = None
    certified: int | None = None
    estimated: bool = False


class Observer(Protocol):
    """Gets the progress of a campaign. Calls return at once and do not raise; from any thread."""

    def say(self, event: Event) -> None:
        """Something happened."""

    def doing(self, what: str) -> None:
        """What is going on from now on: "restarting fileserver for trial 4"; "" for nothing."""

    def standing(self, standing: Standing) -> None:
        """Where the campaign stands; replaces what was said before."""
