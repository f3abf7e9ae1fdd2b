"""The scores of a campaign in one table, which grows as blocks end. Pure.

Everything that judges or shows a campaign takes its numbers from here, so that each block is scored
once. The content follows from the blocks alone, whether they were added one by one or together.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt

from tuner.judge.observations import Observations
from tuner.judge.score import checked_weights, log_times
from tuner.judge.series import testbed_numbers
from tuner.measure.covariates import covariate_row
from tuner.model import BASELINE, COVARIATES, Block, BlockKind, BlockTimes, ComponentResult
from tuner.states import BlockState

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_Arms = tuple["array[int]", "array[int]"]


@dataclass(frozen=True, slots=True)
class ScoredBlock:
    """A complete block with the log score of every trial that it measured."""

    block: BlockTimes
    scores: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Differences:
    """Log time ratios to the baseline, one entry for each arm except the baseline's.

    ``series``, ``column``, ``value``: (entries,), in the order measured; a series is a trial in one
    kind of block, a column is a complete block. ``pilot``: (series,), whether a series is of the
    pilot. ``baseline``: (columns,), the baseline's log scores. ``testbed``: (columns,), the number
    of the testbed that measured the block.
    """

    series: Ints
    column: Ints
    value: Floats
    pilot: npt.NDArray[np.bool_]
    baseline: Floats
    testbed: Ints


def times_of(
    results: Mapping[str, ComponentResult], components: Sequence[str]
) -> tuple[float, ...]:
    """Return the times (s) of a run in the order of ``components``."""
    return tuple(results[name].elapsed_s for name in components)


def block_times(block: Block | BlockTimes, components: Sequence[str]) -> BlockTimes:
    """Reduce a block to its times (s), ordered as ``components``. Raises KeyError if one is
    missing.
    """
    if isinstance(block, BlockTimes):
        return block
    return BlockTimes(
        number=block.number,
        kind=block.kind,
        round=block.round,
        order=block.order,
        state=block.state,
        duration_s=block.duration_s,
        reason=block.reason,
        testbed=block.testbed,
        batch=block.batch,
        slot=block.slot,
        times_s={m.trial: times_of(m.components, components) for m in block.measurements},
        covariates={
            m.trial: row for m in block.measurements if (row := covariate_row(m.diagnostics))
        },
    )


def failed_arms(block: BlockTimes) -> int:
    """Return how many arms of a complete block could not be measured. Of a void block it is not
    known which arms had their turn.
    """
    return len(block.order) - len(block.times_s) if block.state is BlockState.COMPLETE else 0


class ScoreTable:
    """The blocks of one campaign that have ended, and the scores of the complete ones."""

    def __init__(
        self, components: Sequence[str], weights: Sequence[float], *, keep_times: bool = True
    ) -> None:
        """``components``, ``weights``: of the score, in the same order. ``keep_times``: also keep
        times and covariates, which take more than half of the memory and are not needed to show
        scores.
        """
        self.keeps_times = keep_times
        self.components = tuple(components)
        self._weights = checked_weights(weights, len(self.components)).tolist()
        #: Every block added, including void ones.
        self.ended_blocks: list[BlockTimes] = []
        #: The complete ones.
        self.scored: list[ScoredBlock] = []
        #: Measuring time, measurements and failed arms of all blocks.
        self.seconds = 0.0
        self.measurements = 0
        self.failed = 0
        #: The highest block number.
        self.newest = 0
        self._pairs: dict[BlockKind, defaultdict[int, list[float]]] = {
            kind: defaultdict(list) for kind in BlockKind
        }
        self._arms: dict[BlockKind, defaultdict[int, _Arms]] = {
            kind: defaultdict(lambda: (array("q"), array("q"))) for kind in BlockKind
        }
        self._logs: list[Floats] = []
        self._covariates: list[Floats] = []
        self._count = 0
        self._means: dict[int, tuple[int, float]] = {}

    @classmethod
    def of(
        cls,
        blocks: Sequence[Block | BlockTimes],
        components: Sequence[str],
        weights: Sequence[float],
    ) -> ScoreTable:
        """Return the table of these blocks."""
        table = cls(components, weights)
        table.extend(blocks)
        return table

    def extend(self, blocks: Iterable[Block | BlockTimes]) -> None:
        """Add the blocks that follow those added so far, up to the first that is still running."""
        new: list[BlockTimes] = []
        for block in blocks:
            if block.state is BlockState.RUNNING:
                break
            new.append(block_times(block, self.components))
        complete = [block for block in new if block.state is BlockState.COMPLETE]
        scores = self._scores(complete)
        for block in new:
            self._count_in(block)
            if block.state is BlockState.COMPLETE:
                self._take_in(block, scores)

    @property
    def newest_round(self) -> int:
        """The newest round that has a block."""
        return max((block.round for block in self.ended_blocks), default=0)

    def first(self, complete: int) -> ScoreTable:
        """Return the table as it was after the last of its first ``complete`` complete blocks. Only
        for a table that keeps times.
        """
        newest = self.scored[complete - 1].block
        if newest is self.ended_blocks[-1]:
            return self
        until = self.ended_blocks.index(newest) + 1
        return ScoreTable.of(self.ended_blocks[:until], self.components, self._weights)

    def pairs(self, kind: BlockKind = BlockKind.SEARCH) -> Mapping[int, Sequence[float]]:
        """Log time ratios of every trial to the baseline, one per complete block of ``kind``."""
        return self._pairs[kind]

    def means(self) -> dict[int, float]:
        """Mean log time ratio of every trial of the search to the baseline."""
        means = {}
        for trial, values in self._pairs[BlockKind.SEARCH].items():
            count, mean = self._means.get(trial, (0, 0.0))
            if count != len(values):
                mean = fmean(values)
                self._means[trial] = (len(values), mean)
            means[trial] = mean
        return means

    def logs(self, trial: int, kind: BlockKind = BlockKind.SEARCH) -> Floats:
        """Return ln T of the baseline and of a trial, (2, blocks, components), in the complete
        blocks of ``kind`` that measured the trial.
        """
        at, arms = self._where(kind, trial)
        of_base, base_arms = self._where(kind, BASELINE)
        logs = self._all_logs()
        return np.stack([logs[base_arms[np.searchsorted(of_base, at)]], logs[arms]])

    def blocks_of(self, trial: int, kind: BlockKind = BlockKind.SEARCH) -> list[int]:
        """Return the numbers of the complete blocks behind the ``pairs`` of a trial."""
        positions = self._arms[kind].get(trial)
        return [] if positions is None else [self.scored[at].block.number for at in positions[0]]

    def differences(self) -> Differences:
        """Return the differences of every trial to the baseline in every complete block."""
        keys = sorted((kind, trial) for kind in BlockKind for trial in self._pairs[kind])
        row = {key: number for number, key in enumerate(keys)}
        series, column, value = [], [], []
        for number, one in enumerate(self.scored):
            base = one.scores[BASELINE]
            for trial, score in one.scores.items():
                if trial != BASELINE:
                    series.append(row[one.block.kind, trial])
                    column.append(number)
                    value.append(score - base)
        return Differences(
            np.array(series, np.int64),
            np.array(column, np.int64),
            np.array(value, np.float64),
            np.array([kind is BlockKind.PILOT for kind, _ in keys], np.bool_),
            np.array([one.scores[BASELINE] for one in self.scored]),
            testbed_numbers([one.block.testbed for one in self.scored]),
        )

    def observations(self, kinds: Collection[BlockKind]) -> Observations:
        """Return the data that an adjustment is fitted to or used on: every arm except the
        baseline's in blocks of these kinds, by kind and trial.

        ``block`` is the index in ``scored``. Only for a table that keeps times.
        """
        logs, covariates = self._all_logs(), self._all_covariates()
        trials, positions, mine, reference = [], [], [], []
        for kind in BlockKind:
            if kind not in kinds or BASELINE not in self._arms[kind]:
                continue
            of_base, base_arms = self._where(kind, BASELINE)
            for trial in sorted(self._arms[kind].keys() - {BASELINE}):
                at, arms = self._where(kind, trial)
                trials.append(np.full(at.size, trial))
                positions.append(at)
                mine.append(arms)
                reference.append(base_arms[np.searchsorted(of_base, at)])
        own, base = _joined(mine), _joined(reference)
        return Observations(
            _joined(trials),
            _joined(positions),
            logs[own] - logs[base],
            covariates[own] - covariates[base],
        )

    def _where(self, kind: BlockKind, trial: int) -> tuple[Ints, Ints]:
        """Return the indices of a trial in ``scored``, and those of its arms among all arms. They
        are copies, because an ``array`` cannot grow while its buffer is exported.
        """
        at, arms = self._arms[kind].get(trial) or (array("q"), array("q"))
        return np.array(at, np.int64), np.array(arms, np.int64)

    def _scores(self, complete: Sequence[BlockTimes]) -> list[float]:
        """Return the score of each arm, in reverse order of the arms; store ln T in the table."""
        times = [of_trial for block in complete for of_trial in block.times_s.values()]
        if not times:
            return []
        logs = log_times(times)
        self._logs.append(logs)
        if self.keeps_times:
            self._covariates.append(_covariates(complete))
        # Summed in a fixed order, however many blocks there are; a matrix product would not be.
        total = logs[:, 0] * self._weights[0]
        for number, weight in enumerate(self._weights[1:], start=1):
            total = total + logs[:, number] * weight
        scores: list[float] = total[::-1].tolist()
        return scores

    def _all_logs(self) -> Floats:
        if len(self._logs) > 1:
            self._logs = [np.concatenate(self._logs)]
        return self._logs[0] if self._logs else np.empty((0, len(self.components)))

    def _all_covariates(self) -> Floats:
        if len(self._covariates) > 1:
            self._covariates = [np.concatenate(self._covariates)]
        return self._covariates[0] if self._covariates else np.empty((0, len(COVARIATES)))

    def _count_in(self, block: BlockTimes) -> None:
        self.ended_blocks.append(
            block if self.keeps_times else replace(block, times_s={}, covariates={})
        )
        self.seconds += block.duration_s
        self.measurements += len(block.times_s)
        self.failed += failed_arms(block)
        self.newest = max(block.number, self.newest)

    def _take_in(self, block: BlockTimes, scores: list[float]) -> None:
        """Add a complete block. ``scores``: the remaining scores, the next one last; consumed."""
        own = {trial: scores.pop() for trial in block.times_s}
        position, of_kind = len(self.scored), self._arms[block.kind]
        for arm, trial in enumerate(own, start=self._count):
            columns, arms = of_kind[trial]
            columns.append(position)
            arms.append(arm)
        self._count += len(own)
        pairs, base = self._pairs[block.kind], own[BASELINE]
        for trial, score in own.items():
            if trial != BASELINE:
                pairs[trial].append(score - base)
        newest = self.ended_blocks[-1]
        self.scored.append(ScoredBlock(newest, own))


def _covariates(blocks: Sequence[BlockTimes]) -> Floats:
    """Return the covariates of every arm in turn: (arms, covariates), NaN where unknown."""
    if not any(block.covariates for block in blocks):
        return np.full((sum(len(block.times_s) for block in blocks), len(COVARIATES)), np.nan)
    unknown = (None,) * len(COVARIATES)
    rows = [block.covariates.get(trial, unknown) for block in blocks for trial in block.times_s]
    return np.array(rows, np.float64)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
