"""What a campaign has cost so far, and what still fits its budget. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.campaign.rules import Rules
from tuner.campaign.scores import ScoreTable


@dataclass(frozen=True, slots=True)
class Spent:
    """What the blocks so far have cost, void ones included."""

    seconds: float
    measurements: int

    @classmethod
    def of(cls, table: ScoreTable) -> Spent:
        return cls(table.seconds, table.measurements)

    @property
    def seconds_an_arm(self) -> float:
        """The pace so far; 0 before anything was measured."""
        return self.seconds / self.measurements if self.measurements else 0.0

    def allows(self, rules: Rules, *, arms: int, kept: float = 0.0) -> bool:
        """Whether so many more arms fit what is left of the budget when a share of it is kept."""
        if self.seconds + arms * self.seconds_an_arm > (1.0 - kept) * rules.budget_s:
            return False
        limit = rules.budget_measurements
        return limit is None or self.measurements + arms <= (1.0 - kept) * limit

    def share(self, rules: Rules, *, arms: int) -> float:
        """The share of the budget that so many arms cost at the present pace."""
        limit = rules.budget_measurements
        of_time = arms * self.seconds_an_arm / rules.budget_s
        return max(of_time, 0.0 if limit is None else arms / limit)
