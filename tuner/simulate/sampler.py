"""Measures configurations on a surface, block by block, without a campaign or a store.

For experiments with other searches or rules: it draws the same values as a campaign with the same
seed in blocks of the same number, with the configurations as its trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.model import Configuration
from tuner.services.simulated import World
from tuner.services.simulated.noise import Run


@dataclass(frozen=True, slots=True)
class Sampled:
    """One run.

    ``seconds``: of each component, empty if it failed; ``diagnostics``: under the names used by
    real hosts, for ``tuner.measure.covariates``; ``restart_s`` and ``workload_s``: durations;
    ``failed``: ``start`` or ``workload``, "" if it succeeded.
    """

    seconds: Mapping[str, float]
    diagnostics: Mapping[str, float | str]
    restart_s: float
    workload_s: float
    failed: str = ""

    @property
    def cost_s(self) -> float:
        """The total duration."""
        return self.restart_s + self.workload_s


@dataclass(slots=True)
class Sampler:
    """A service that is measured run after run: only parts whose settings change are restarted.

    ``parts``: in startup order. ``cost_s``: total duration of all runs so far.
    """

    world: World
    components: Sequence[str]
    baseline: Configuration
    parts: tuple[str, ...]
    cost_s: float = 0.0
    #: The parts that were restarted since the last run.
    _fresh: set[str] = field(default_factory=set)
    _up: dict[str, Mapping[str, object] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._up = {part: self.baseline.part(part) for part in self.parts}

    def block(self, number: int, configurations: Sequence[Configuration]) -> list[Sampled]:
        """Measure each of these once, in this order. ``number`` counts from 1 and, together with
        the seed, determines the random values, so that a block can be reproduced.
        """
        samples: list[Sampled] = []
        position = 0
        for trial, configuration in enumerate(configurations):
            run = Run(self.world.seed, str(number), str(trial), position)
            samples.append(self.measure(run, configuration))
            position += samples[-1].failed != "start"
        return samples

    def measure(self, run: Run, configuration: Configuration) -> Sampled:
        """Measure one run, including the restarts that it needs."""
        restart_s, up = self._apply(configuration)
        if not up:
            sampled = Sampled({}, {}, restart_s, 0.0, "start")
        else:
            ratio = self.world.restart_ratio(part for part in self.parts if part in self._fresh)
            self._fresh.clear()
            times = self.world.times(run, configuration, self.components, ratio)
            failed = self.world.failure(configuration, "workload") is not None
            diagnostics = {} if failed else {**times.diagnostics, "engine_cpu_s": times.cpu_s}
            seconds = {} if failed else times.seconds
            how = "workload" if failed else ""
            sampled = Sampled(seconds, diagnostics, restart_s, times.total_s, how)
        self.cost_s += sampled.cost_s
        return sampled

    def _apply(self, configuration: Configuration) -> tuple[float, bool]:
        """Restart parts as needed; return the time taken and whether everything is up."""
        cost_s = 0.0
        for index, part in enumerate(self.parts):
            before = self.parts[: index + 1]
            values = configuration.part(part)
            if self.world.failure(configuration, "start", parts=before) is not None:
                self._up[part] = None
                return cost_s + self.world.costs.restart_s(part), False
            if self._up[part] != values:
                cost_s += self.world.costs.restart_s(part)
                self._up[part] = values
                self._fresh.add(part)
        return cost_s, True
