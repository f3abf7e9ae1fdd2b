"""The cost of a campaign so far, and what still fits its budget. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.time_use import TimeUse


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the blocks so far, including void ones."""

    seconds: float
    measurements: int

    @classmethod
    def of(cls, table: ScoreTable) -> Cost:
        return cls(table.seconds, table.measurements)

    @property
    def seconds_an_arm(self) -> float:
        """Average seconds per arm so far; 0 before the first measurement."""
        return self.seconds / self.measurements if self.measurements else 0.0

    def arms_left(self, rules: Rules) -> float:
        """How many more arms the budget allows; infinite while no limit can be estimated."""
        by_time = by_count = math.inf
        if self.seconds > 0.0 and self.measurements:
            by_time = max(0.0, rules.budget_s - self.seconds) / self.seconds_an_arm
        if rules.budget_measurements is not None:
            by_count = max(0.0, float(rules.budget_measurements - self.measurements))
        return min(by_time, by_count)

    def total_arms(self, rules: Rules) -> float:
        """How many arms the whole budget allows, including those already measured."""
        return self.arms_left(rules) + self.measurements

    def used(self, rules: Rules) -> float:
        """Fraction of the budget used up, in time or in measurements, whichever is larger."""
        share = self.seconds / rules.budget_s
        limit = rules.most_measurements
        return share if limit is None else max(share, self.measurements / limit)

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
