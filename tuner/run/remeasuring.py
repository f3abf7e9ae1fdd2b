"""Choose the arm of a finished block to measure again because of other load on the machines.

Owns the usual levels of one testbed, and how much has been measured again there. The limits and the
decision are those of ``tuner.judge.disturbed``, which ignores the measured times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.judge.disturbed import DisturbedArm, Levels, disturbed, usual_limits
from tuner.measure.covariates import covariate_row
from tuner.model import Measurement
from tuner.plan.rules import Rules
from tuner.states import BlockState, EventKind
from tuner.store import Store


@dataclass(slots=True)
class Usual:
    """The usual load on the machines of one testbed. ``again``: number of arms measured again."""

    earlier: list[Levels] = field(default_factory=list)
    again: int = 0

    @classmethod
    def of_campaign(cls, store: Store, campaign: str, testbed: str | None, rules: Rules) -> Usual:
        """Restore the state at the end of the campaign's last block on this testbed."""
        usual = cls()
        for block in store.block_times(campaign, rules.components):
            if block.testbed == testbed and block.state is BlockState.COMPLETE:
                usual.earlier += [block.covariates.get(trial, ()) for trial in block.times_s]
        events = store.events(campaign, kinds=[EventKind.MEASURED_AGAIN])
        usual.again = sum(event.data.get("testbed") == testbed for event in events)
        return usual

    def learn(self, measurements: Iterable[Measurement]) -> None:
        """Add the levels of the arms of a complete block."""
        self.earlier += [covariate_row(each.diagnostics) for each in measurements]

    def limits(self) -> tuple[float, ...]:
        """The levels above which an arm of the next block counts as disturbed."""
        return usual_limits(self.earlier)

    def disturbed(
        self, arms: Mapping[int, Measurement], limits: Sequence[float], again: int
    ) -> DisturbedArm | None:
        """Return the arm of a finished block to measure again; None if there is none.

        ``arms``: by trial. ``again``: how many arms of the block have been measured again already.
        """
        return disturbed(
            {trial: covariate_row(each.diagnostics) for trial, each in arms.items()},
            limits,
            again=again,
            again_in_all=self.again,
            runs_in_all=len(self.earlier) + len(arms),
        )
