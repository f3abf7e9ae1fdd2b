"""Made-up histories of campaigns for the planner: the measurements and the resulting plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tests.unit.plan.means_guide import MeansGuide, configuration
from tuner.judge.race import RaceRules
from tuner.model import (
    BASELINE,
    Block,
    BlockKind,
    BlockTimes,
    ComponentResult,
    Configuration,
    Measurement,
    Trial,
)
from tuner.plan.planner import Planner
from tuner.plan.rules import Rules
from tuner.plan.steps import Explore, Finish, Halt, Plan, RunBlock, Step
from tuner.states import BlockState, TrialState

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
COMPONENTS = ("write", "read")

#: Ratio of a trial's time to the baseline's, by trial number.
Ratios = Mapping[int, float]

#: The times of a block in which the baseline and one trial take equally long.
BLOCK = BlockTimes(
    number=1,
    kind=BlockKind.SEARCH,
    round=1,
    order=(0, 1),
    state=BlockState.COMPLETE,
    duration_s=4.0,
    reason="",
    testbed=None,
    times_s={0: (1.0, 1.0), 1: (1.0, 1.0)},
)


def rules(**changed: object) -> Rules:
    usual = Rules(
        components=COMPONENTS,
        weights=(0.5, 0.5),
        race=RaceRules(delta=0.02, floor=0.05, max_blocks=8),
        arms=3,
        budget_s=240.0,
        budget_measurements=None,
        max_trials=9,
        certify_blocks=20,
        certify_share=0.4,
        seed=1,
    )
    return replace(usual, **changed)  # type: ignore[arg-type]


def planner(of: Rules) -> Planner:
    return Planner(of, MeansGuide(of.weights, of.race.floor))


def measurement(trial: int, position: int, times_s: tuple[float, ...]) -> Measurement:
    nothing = Configuration()
    results = [ComponentResult(t, 1, 0) for t in times_s]
    return Measurement(
        trial=trial,
        position=position,
        started=NOON,
        requested=nothing,
        effective=nothing,
        actions=(),
        apply_s=0.0,
        workload_s=sum(times_s),
        components=dict(zip(COMPONENTS, results, strict=True)),
    )


def trial(number: int, round_: int, state: TrialState = TrialState.RUNNING) -> Trial:
    return Trial(number, configuration(number), round_, "test", state)


@dataclass
class History:
    """A campaign as the planner sees it, and every plan made on the way.

    ``fails``: the block number from which on a trial fails, by trial. ``voids``: blocks that go
    void. ``arm_s``: duration of one arm (s).
    """

    rules: Rules
    ratios: Ratios = field(default_factory=dict)
    noise: float = 0.005
    fails: Mapping[int, int] = field(default_factory=dict)
    voids: frozenset[int] = frozenset()
    arm_s: float = 2.0
    trials: list[Trial] = field(default_factory=lambda: [trial(BASELINE, 0)])
    blocks: list[Block] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    failed_in: dict[int, int] = field(default_factory=dict)

    def planner(self) -> Planner:
        return planner(self.rules)

    def run(self, until: Callable[[Step], bool] = lambda step: False) -> Step:
        """Execute one planner's plans until it finishes or halts, or ``until`` accepts a step."""
        planner = self.planner()
        for _ in range(5000):
            now = planner.plan(self.trials, self.blocks)
            self.plans.append(now)
            for number, ending in now.endings.items():
                if self.trials[number].state is TrialState.RUNNING:
                    update = replace(self.trials[number], state=ending.state, reason=ending.reason)
                    self.trials[number] = update
            match now.step:
                case step if until(step):
                    return step
                case Explore() as step:
                    self.measure(self.begin(step))
                case RunBlock() as step:
                    self.measure(step)
                case Finish() | Halt() as step:
                    return step
        raise AssertionError("the planner finds no end")

    def begin(self, step: Explore) -> RunBlock:
        """Store the new trials of the step, and return the block that the runner would begin."""
        (group,) = step.groups
        order = []
        for pick in group:
            if not isinstance(pick, int):
                new = trial(len(self.trials), step.round)
                assert pick.configuration == new.configuration
                self.trials.append(new)
                pick = new.number
            order.append(pick)
        return RunBlock.shuffled(self.rules.seed, step.number, step.kind, step.round, order)

    def measure(self, step: RunBlock) -> None:
        failed = {n for n in step.order if self.fails.get(n, step.number + 1) <= step.number}
        for number in failed:
            self.trials[number] = replace(self.trials[number], state=TrialState.FAILED)
            self.failed_in[number] = step.number
        void = step.number in self.voids
        arms = [n for n in step.order if n not in failed]
        measured = tuple(
            measurement(number, position, self._times(step.number, number))
            for position, number in enumerate(arms[:1] if void else arms)
        )
        self.blocks.append(
            Block(
                number=step.number,
                kind=step.kind,
                round=step.round,
                order=step.order,
                state=BlockState.VOID if void else BlockState.COMPLETE,
                measurements=measured,
                duration_s=self.arm_s * len(measured),
            )
        )

    def _times(self, block: int, number: int) -> tuple[float, ...]:
        draw = random.Random(f"{block}:{number}")
        ratio = self.ratios.get(number, 1.0)
        return tuple(ratio * draw.lognormvariate(0.0, self.noise) for _ in COMPONENTS)
