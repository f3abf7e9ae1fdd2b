"""Which arm of a finished block is measured again, because others disturbed the machines meanwhile.

Owns what is usual on one testbed, and how much has been measured again there. The limits and the
decision are those of ``tuner.judge.disturbed``, which looks at no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.campaign.rules import Rules
from tuner.judge.disturbed import DisturbedArm, Levels, disturbed, usual_limits
from tuner.measure.covariates import covariate_row
from tuner.model import Measurement
from tuner.states import BlockState, EventKind
from tuner.store import Store


@dataclass(slots=True)
class Usual:
    """What others usually do to the machines of one testbed. ``again``: arms measured again."""

    earlier: list[Levels] = field(default_factory=list)
    again: int = 0

    @classmethod
    def of_campaign(cls, store: Store, campaign: str, testbed: str | None, rules: Rules) -> Usual:
        """As it was when the campaign's last block on this testbed ended."""
        usual = cls()
        for block in store.block_times(campaign, rules.components):
            if block.testbed == testbed and block.state is BlockState.COMPLETE:
                usual.earlier += [block.covariates.get(trial, ()) for trial in block.times_s]
        events = store.events(campaign, kinds=[EventKind.MEASURED_AGAIN])
        usual.again = sum(event.data.get("testbed") == testbed for event in events)
        return usual

    def learn(self, measurements: Iterable[Measurement]) -> None:
        """Learn from the arms of a complete block."""
        self.earlier += [covariate_row(each.diagnostics) for each in measurements]

    def limits(self) -> tuple[float, ...]:
        """The levels beyond which an arm of the next block is disturbed."""
        return usual_limits(self.earlier)

    def disturbed(
        self, arms: Mapping[int, Measurement], limits: Sequence[float], again: int
    ) -> DisturbedArm | None:
        """The arm of a finished block that is to be measured again. ``arms``: by trial; ``again``:
        how many of them have been already.
        """
        return disturbed(
            {trial: covariate_row(each.diagnostics) for trial, each in arms.items()},
            limits,
            again=again,
            again_in_all=self.again,
            runs_in_all=len(self.earlier) + len(arms),
        )
