"""The progress of a campaign, and the interface of its observers.

Observers never end a campaign: if a terminal goes away or a pipe is closed, they fall silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tuner.model import BASELINE, BlockKind, Configuration, Event
from tuner.records.estimate import Estimate

#: What a trial is called while blocks of a kind measure it.
_STATES: Final[Mapping[BlockKind, str]] = {
    BlockKind.PILOT: "twin",
    BlockKind.SEARCH: "racing",
    BlockKind.CERTIFY: "finalist",
}


def state_word(trial: int, kind: BlockKind, incumbent: int) -> str:
    """Return the ``state`` of a trial's row while blocks of ``kind`` are measured."""
    if trial == BASELINE:
        return "baseline"
    if trial == incumbent and kind is BlockKind.SEARCH:
        return "incumbent"
    return _STATES[kind]


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial in the race, the baseline among them.

    ``state``: one word, see ``state_word``; ``changes``: brief description of the
    differences from the baseline; ``blocks``: number of blocks behind the estimate; ``estimate``:
    against the baseline.
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
    """The configuration that looks best so far by all measurements; a guess that steers the search,
    not a claim. ``changes``: brief description of the differences from the baseline. ``estimate``:
    against the baseline, with the model's 95% interval.
    """

    configuration: Configuration
    changes: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a campaign.

    ``block``: the one being measured, or the last one, counting from 1; ``expected_left_s``: None
    while unknown; ``measurements``: so far, of at most ``budget``, which is None if only the
    process that runs the campaign knows it; ``estimated``: the budget is the number that the time
    allows at the pace so far, or that a comparison needs. ``rows`` and ``dropped``: the most
    important first; a small terminal shows only the first ones. ``best``: the configuration that
    looks best; ``certified``: the trial that is already recommended, while the search continues.
    """

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
    """Receives the progress of a campaign.

    Calls may come from any thread; they return at once and do not raise.
    """

    def say(self, event: Event) -> None:
        """Report an event."""

    def doing(self, what: str) -> None:
        """Report the current activity: "restarting fileserver for trial 4"; "" for none."""

    def standing(self, standing: Standing) -> None:
        """Report the campaign's progress; replaces earlier reports."""
