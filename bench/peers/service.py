"""The service that every peer may measure for a number of hours, and is judged by.

Applies the cost model of campaigns (restarts of what changes, then the workload), and records what
a peer believed to be the best at any time. A peer sees what its users would see: the times of a
run, or that it failed. It knows neither the truth nor the floors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tuner.model import Answer, Configuration
from tuner.services.simulated.noise import Run
from tuner.simulate.campaign import Point, Result
from tuner.simulate.sampler import Sampler
from tuner.simulate.surface import Surface

_HOUR_S = 3600.0
#: Runs that share a block's noise, as in a campaign: they are made within the same minute.
_RUNS_TOGETHER = 6


class OutOfBudget(Exception):
    """The budget is used up."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a peer sees of a run: log times by component and their weighted mean.

    If the run failed, ``logs`` is empty and ``score`` is infinite.
    """

    logs: Mapping[str, float]
    score: float

    @property
    def failed(self) -> bool:
        """Whether the service did not start, or the workload failed."""
        return not self.logs


@dataclass(slots=True)
class Service:
    """A surface that can be measured while ``budget_s`` lasts. A run that has begun is finished."""

    surface: Surface
    seed: int
    budget_s: float
    noise: float | None = None
    believed: Configuration = field(default_factory=Configuration)
    curve: list[Point] = field(default_factory=list)
    runs: int = 0
    _configurations: set[Configuration] = field(default_factory=set)
    _sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self._sampler = self.surface.sampler(self.seed, self.noise)
        self.believed = self.surface.baseline
        self.curve.append(Point(0.0, self.surface.regret(self.believed)))

    @property
    def baseline(self) -> Configuration:
        """The configuration as found."""
        return self.surface.baseline

    @property
    def hours(self) -> float:
        """The testbed time used so far."""
        return self._sampler.cost_s / _HOUR_S

    @property
    def left_s(self) -> float:
        """The remaining budget, never below 0."""
        return max(0.0, self.budget_s - self._sampler.cost_s)

    def measure(self, configuration: Configuration) -> Observation:
        """Restart what must be and run the workload once. Raises OutOfBudget."""
        if self.left_s <= 0.0:
            raise OutOfBudget
        block, position = divmod(self.runs, _RUNS_TOGETHER)
        run = Run(self.seed, str(block + 1), str(self.runs + 1), position)
        self.runs += 1
        self._configurations.add(configuration)
        sampled = self._sampler.measure(run, configuration)
        if sampled.failed:
            return Observation({}, math.inf)
        logs = {name: math.log(seconds) for name, seconds in sampled.seconds.items()}
        weights = self.surface.workload.weights
        score = sum(w * logs[name] for w, name in zip(weights, logs, strict=True))
        return Observation(logs, score)

    def mean(self, configuration: Configuration, repeats: int) -> float:
        """Return the mean score of ``repeats`` runs, infinite if one fails. Raises OutOfBudget."""
        total = 0.0
        for _ in range(repeats):
            run = self.measure(configuration)
            if run.failed:
                return math.inf
            total += run.score
        return total / repeats

    def believe(self, configuration: Configuration) -> None:
        """Record what the peer would recommend from now on."""
        if configuration != self.believed:
            self.believed = configuration
            self.curve.append(Point(self.hours, self.surface.regret(configuration)))

    def result(self) -> Result:
        """Return the result, judged by the truth; anything but the baseline is a recommendation."""
        score = self.surface.truth(self.believed).score
        recommended = self.believed != self.baseline
        return Result(
            seed=self.seed,
            answer=(Answer.RECOMMENDED if recommended else Answer.NO_IMPROVEMENT).value,
            configuration=self.believed,
            score=score,
            regret=self.surface.regret(self.believed),
            certified_h=None,
            false=recommended and (score >= 0.0 or not self.surface.keeps(self.believed)),
            hours=self.hours,
            trials=len(self._configurations - {self.baseline}),
            blocks=0,
            measurements=self.runs,
            best=self.believed,
            curve=tuple(self.curve),
        )


Method = Callable[[Service], None]
"""A peer: it calls ``measure`` and ``believe`` until done or the service raises OutOfBudget."""


def run_method(
    method: Method, surface: Surface, seed: int, budget_s: float, noise: float | None = None
) -> Result:
    """Run a peer; return what it believes in the end, and when it came to believe it."""
    service = Service(surface, seed, budget_s, noise)
    with suppress(OutOfBudget):
        method(service)
    return service.result()
