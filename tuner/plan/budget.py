"""The cost of a campaign so far, and what still fits its budget. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.model import BlockTimes
from tuner.plan.attempts import Attempt
from tuner.plan.batches import batch_number
from tuner.plan.certifying import Certification
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable, failed_arms
from tuner.text import counted, duration
from tuner.time_use import TimeUse

#: A rest of the budget that is not worth mentioning, as a fraction of it.
_SMALL = 0.1


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the blocks so far, including void ones.

    ``slowdown``: by what an arm takes longer now than on average so far, because fewer testbeds
    measure at once. ``failed``: arms of complete blocks without a measurement; they took time too.
    """

    seconds: float
    measurements: int
    slowdown: float = 1.0
    failed: int = 0

    @classmethod
    def of(cls, table: ScoreTable, testbeds: int | None = None) -> Cost:
        """Return the cost of all blocks. ``testbeds``: how many measure at once now, if known."""
        slowdown = 1.0 if testbeds is None else _slowdown(table.ended_blocks, testbeds)
        return cls(table.seconds, table.measurements, slowdown, table.failed)

    @classmethod
    def until(cls, blocks: Sequence[BlockTimes], testbeds: int) -> Cost:
        """Return the cost of the first blocks of a campaign. ``testbeds``: as of the last one."""
        seconds = sum(block.duration_s for block in blocks)
        arms = sum(len(block.times_s) for block in blocks)
        return cls(seconds, arms, _slowdown(blocks, testbeds), sum(map(failed_arms, blocks)))

    @property
    def arms(self) -> int:
        """The arms so far, whether or not they could be measured."""
        return self.measurements + self.failed

    @property
    def seconds_an_arm(self) -> float:
        """Expected seconds per arm; 0 before the first one."""
        return self.slowdown * self.seconds / self.arms if self.arms else 0.0

    def arms_left(self, rules: Rules) -> float:
        """How many more arms the budget allows; infinite while no limit can be estimated."""
        by_time = by_count = math.inf
        if self.seconds > 0.0 and self.arms:
            by_time = max(0.0, rules.budget_s - self.seconds) / self.seconds_an_arm
        if rules.budget_measurements is not None:
            by_count = max(0.0, float(rules.budget_measurements - self.measurements))
        return min(by_time, by_count)

    def total_arms(self, rules: Rules) -> float:
        """How many arms the whole budget allows, including those so far."""
        return self.arms_left(rules) + self.arms

    def used(self, rules: Rules) -> float:
        """Fraction of the budget used up, in time or in measurements, whichever is larger."""
        share = self.seconds / rules.budget_s
        limit = rules.most_measurements
        return share if limit is None else max(share, self.measurements / limit)

    def spare(self, rules: Rules) -> str:
        """Return how much of the budget is left, in words: of time or of measurements, whichever
        ends first. Returns "" before the first measurement, and for less than a tenth.
        """
        if not self.measurements or self.used(rules) > 1.0 - _SMALL:
            return ""
        most, share = rules.most_measurements, self.seconds / rules.budget_s
        if most is not None and self.measurements / most > share:
            return counted(most - self.measurements, "measurement")
        return duration(rules.budget_s - self.seconds)

    def pace(self, use: TimeUse) -> float:
        """Wall time per second of measuring. Bringing the testbed up and down is excluded, because
        it takes the same time however long a campaign is.
        """
        return max(1.0, (use.wall_s - use.testbed_s) / self.seconds) if self.seconds else 1.0

    def left_s(self, use: TimeUse, rules: Rules) -> float | None:
        """Wall time (s) until the budget is used up at the current pace; None while it cannot be
        estimated.

        Most campaigns end earlier, when everything is settled.
        """
        if self.seconds == 0.0:
            return None
        used = self.used(rules)
        return max(0.0, self.seconds * (1.0 - used) / used) * self.pace(use)


def _slowdown(blocks: Sequence[BlockTimes], testbeds: int) -> float:
    """The number of testbeds that have measured at once, on average over time, divided by that of
    now; at least 1. Testbeds that come back make up for it only as they measure.
    """
    widths = [(seconds, len(names)) for seconds, names in _batches(blocks).values()]
    total_s = sum(seconds for seconds, _ in widths)
    if total_s <= 0.0:
        return 1.0
    return max(1.0, sum(seconds * width for seconds, width in widths) / total_s / testbeds)


def _batches(blocks: Sequence[BlockTimes]) -> dict[int, tuple[float, set[str | None]]]:
    """The elapsed time (s) of each batch, and the testbeds that measured it."""
    batches: dict[int, tuple[float, set[str | None]]] = {}
    for block in blocks:
        seconds, names = batches.get(batch_number(block), (0.0, set()))
        batches[batch_number(block)] = (seconds + block.duration_s, {*names, block.testbed})
    return batches


def ended_by_budget(
    table: ScoreTable,
    rules: Rules,
    all_attempts: Sequence[Attempt],
    standings: Sequence[Certification],
) -> frozenset[int]:
    """Return the finalists whose newest attempt ended because no further block fitted the budget.

    ``standings``: of the attempts, in the same order.
    """
    finalists: set[int] = set()
    for attempt, standing in zip(all_attempts, standings, strict=True):
        finalists.difference_update(attempt.finalists)
        last = max(n for n, block in enumerate(table.ended_blocks) if block.round == attempt.round)
        blocks = table.ended_blocks[: last + 1]
        _, names = _batches(blocks)[batch_number(blocks[-1])]
        left = Cost.until(blocks, len(names)).arms_left(rules)
        if standing.open and left < (1 + len(standing.open)) * len(names):
            finalists.update(standing.open)
    return frozenset(finalists)
