"""The incumbent over time, by a campaign's events and its blocks.

A certified trial leads as long as its certificate stands; before there is one, the trial that was
promoted last and is still in the search; otherwise the baseline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.model import BASELINE, Answer, BlockKind, Event, Recommendation
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.records.estimate import Estimate
from tuner.results.reference_comparison import estimates_along
from tuner.states import EventKind

_LEAVES = (EventKind.TRIAL_PRUNED, EventKind.TRIAL_FAILED)
#: The kinds of events that can change the incumbent.
MOVES: Final = (
    EventKind.TRIAL_PROMOTED,
    *_LEAVES,
    EventKind.CERTIFIED,
    EventKind.WITHDRAWN,
    EventKind.RECOMMENDATION,
)
#: The incumbent's estimate is computed at this many blocks at most.
_STEPS = 300


@dataclass(frozen=True, slots=True)
class Step:
    """The incumbent after a block, with its estimate then; None for the baseline."""

    block: int
    trial: int
    estimate: Estimate | None


class Incumbents:
    """The incumbents so far, each with the block after which it became one."""

    def __init__(self) -> None:
        self._promoted = BASELINE
        self._certified: int | None = None
        self._changes: list[tuple[int, int, BlockKind]] = [(0, BASELINE, BlockKind.SEARCH)]

    @property
    def now(self) -> int:
        """The incumbent."""
        return self._changes[-1][1]

    def follow(self, event: Event, answer: Recommendation | None) -> bool:
        """Follow an event; return whether ``add`` is due. ``answer``: of the campaign; that of its
        end counts.
        """
        trial = event.data.get("trial")
        if event.kind == EventKind.RECOMMENDATION and answer is not None:
            certified = answer.answer is Answer.RECOMMENDED
            self._certified = answer.trial if certified else None
        elif event.kind == EventKind.CERTIFIED and isinstance(trial, int):
            self._certified = trial
        elif event.kind == EventKind.WITHDRAWN:
            self._certified = None
        elif event.kind == EventKind.TRIAL_PROMOTED and isinstance(trial, int):
            self._promoted = trial
        elif event.kind in _LEAVES:
            if trial == self._promoted:
                self._promoted = BASELINE
            if trial == self._certified and event.kind == EventKind.TRIAL_FAILED:
                self._certified = None
        return self._leader() != self._changes[-1][1:]

    def add(self, block: int) -> None:
        """Record that the incumbent changed after a block."""
        self._changes.append((block, *self._leader()))

    def _leader(self) -> tuple[int, BlockKind]:
        """The incumbent, and the kind of blocks that its estimate rests on."""
        if self._certified is None:
            return self._promoted, BlockKind.SEARCH
        return self._certified, BlockKind.CERTIFY

    def steps(self, table: ScoreTable, rules: Rules) -> tuple[Step, ...]:
        """Return the incumbent after complete blocks, from the first one of the search on.

        Includes blocks where it changes, and evenly spaced ones, as many as a plot can resolve.
        """
        numbers = [s.block.number for s in table.scored if s.block.kind is not BlockKind.PILOT]
        if not numbers:
            return ()
        blocks = np.array(numbers)
        changes = [block for block, _, _ in self._changes]
        begins = np.searchsorted(blocks, changes)
        even = np.linspace(0, len(blocks) - 1, min(_STEPS, len(blocks))).round().astype(int)
        at_blocks = np.union1d(even, begins[begins < len(blocks)])
        # If the incumbent changed several times after one block, the last change counts.
        led = np.searchsorted(changes, blocks[at_blocks], side="right")
        incumbents = [self._changes[which - 1][1:] for which in led.tolist()]
        indices: dict[tuple[int, BlockKind], list[int]] = defaultdict(list)
        for index, incumbent in enumerate(incumbents):
            indices[incumbent].append(index)
        estimates: dict[int, Estimate] = {}
        for (trial, kind), its in indices.items():
            estimates |= _estimates(table, rules, trial, kind, its, blocks[at_blocks[its]])
        return tuple(
            Step(numbers[at], trial, estimates.get(index))
            for index, (at, (trial, _)) in enumerate(
                zip(at_blocks.tolist(), incumbents, strict=True)
            )
        )


def most_blocks(rules: Rules, kind: BlockKind) -> int:
    """Return how many blocks of a kind a trial can have."""
    return rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks


def _estimates(
    table: ScoreTable,
    rules: Rules,
    trial: int,
    kind: BlockKind,
    indices: Sequence[int],
    blocks: npt.NDArray[np.int64],
) -> dict[int, Estimate]:
    """Return a trial's estimates after some blocks, by index; none for the baseline."""
    values = table.pairs(kind).get(trial, [])
    if trial == BASELINE or not values:
        return {}
    counts = np.searchsorted(table.blocks_of(trial, kind), blocks, side="right").tolist()
    some = [(index, count) for index, count in zip(indices, counts, strict=True) if count]
    estimates = estimates_along(values, [count for _, count in some], most_blocks(rules, kind))
    return {index: e for (index, _), e in zip(some, estimates, strict=True)}
