"""What the runner of a campaign tells while it runs, and to whom.

Observers never end a campaign: a terminal that went away or a closed pipe silences them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tuner.model import BlockKind, Configuration, Event
from tuner.report.drawing import Estimate
from tuner.report.words import duration, signed, signed_interval


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

    ``block`` counts from 1 and is the one being measured, or the last one; ``expected_blocks`` and
    ``expected_left_s`` are None while unknown; ``measurements`` of at most ``budget``, None where
    only others know it; ``estimated``: it is how many the time will allow at the pace so far.
    ``rows`` and ``dropped``: the most important first; a low terminal shows only the first ones.
    ``best``: what looks best; ``certified``: the trial that is recommended already, while the
    search goes on.
    """

    race: int
    block: int
    expected_blocks: int | None
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
    """Is told how a campaign goes. Calls return at once and raise nothing; any thread may call."""

    def say(self, event: Event) -> None:
        """Something happened."""

    def doing(self, what: str) -> None:
        """What is going on from now on: "restarting fileserver for trial 4"; "" for nothing."""

    def standing(self, standing: Standing) -> None:
        """Where the campaign stands; replaces what was said before."""


def where(standing: Standing) -> str:
    """ "search, block 7 of about 30", "certification, block 3"."""
    phases = {BlockKind.PILOT: "pilot", BlockKind.CERTIFY: "certification"}
    phase = phases.get(standing.kind, "search")
    of = "" if standing.expected_blocks is None else f" of about {standing.expected_blocks}"
    return f"{phase}, block {standing.block}{of}"


def outlook(standing: Standing) -> str:
    """ "trial 4 is certified; looks best: threads=64, expected 8.1% faster (2.0 to 14.1%)"."""
    parts = []
    if standing.certified is not None:
        parts.append(f"trial {standing.certified} is certified")
    if (best := standing.best) is not None:
        e = best.estimate
        expected = f"{signed(e.ratio)} ({signed_interval(e.lower, e.upper)})"
        parts.append(f"looks best: {best.changes}, expected {expected}")
    return "; ".join(parts)


def how_long(elapsed_s: float, left_s: float | None) -> str:
    """ "12 min 05 s elapsed, about 40 min 00 s left"."""
    if left_s is None:
        left = ""
    else:
        left = f", about {duration(left_s)} left" if left_s >= 1.0 else ", nearly done"
    return f"{duration(elapsed_s)} elapsed{left}"


def how_many(standing: Standing) -> str:
    """ "12/96 measurements", "12 of about 96 measurements", "12 measurements"."""
    of = ""
    if standing.budget is not None:
        of = f" of about {standing.budget}" if standing.estimated else f"/{standing.budget}"
    return f"{standing.measurements}{of} measurements"
