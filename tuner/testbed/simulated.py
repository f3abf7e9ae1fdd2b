"""A testbed that exists only as arithmetic: known effects, known noise, no host.

Owns a model of a file service whose truth is known, so that what campaigns conclude can be checked,
and tried without a server. It runs in virtual time: a campaign of hours takes seconds. Everything
else, from the plan to the store, is what a real campaign uses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from search_spaces import Space
from tuner.errors import ConfigurationError, WorkloadError
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.driver import Report
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload
from tuner.model import ComponentResult, Configuration, PageCache, Value
from tuner.target.part import Part
from tuner.target.target import Target
from tuner.testbed.testbed import Bench

_RESTART_S = 1.0
_COMPONENT_S = 1.0
#: What the simulated hosts allow.
_FACTS = {
    "net_core_rmem_max": 4 << 20,
    "memory_bytes": 16 << 30,
    "nofile": 65536,
    "fixed_command_length": 40,
    "cache_partition_bytes": 16 << 30,
    "cacheinfo_blocks": 200_000,
}


@dataclass(frozen=True, slots=True)
class Effect:
    """What a parameter's value does to the time of some components, while ``low <= value <= high``.

    ``change``: relative change of time, -0.05 for 5 % less. ``components``: all when empty. A
    ``value`` is compared for equality instead of the range. ``fails``: how a configuration with it
    goes wrong instead: ``start`` (the program does not start), ``workload`` (the run is void), ""
    for not at all.
    """

    parameter: str
    change: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    value: Value | None = None
    components: tuple[str, ...] = ()
    fails: str = ""

    def holds(self, configuration: Configuration) -> bool:
        """Whether it applies to a configuration; to an unset parameter it never does."""
        seen = configuration.as_dict().get(self.parameter)
        if seen is None:
            return False
        if self.value is not None:
            return type(seen) is type(self.value) and seen == self.value
        return not isinstance(seen, str) and self.low <= seen <= self.high


@dataclass(frozen=True, slots=True)
class World:
    """The truth: effects, and noise as standard deviations of log times.

    ``noise``: of each component of each run; ``block_noise``: shared by the runs of a block, which
    pairing takes out. ``references``: how many times as long a reference takes as a configuration
    without effects, by its name; 1 when it is not here.
    """

    effects: tuple[Effect, ...] = ()
    noise: float = 0.014
    block_noise: float = 0.0
    seed: int = 1
    references: Mapping[str, float] = field(default_factory=dict)

    def log_change(self, configuration: Configuration, component: str) -> float:
        """The true log time ratio of one component to a configuration without effects."""
        return sum(
            math.log1p(effect.change)
            for effect in self.effects
            if not effect.fails
            and effect.holds(configuration)
            and (not effect.components or component in effect.components)
        )

    def failure(self, configuration: Configuration, kind: str) -> str | None:
        """The parameter that makes a configuration fail in this way, if one does."""
        for effect in self.effects:
            if effect.fails == kind and effect.holds(configuration):
                return effect.parameter
        return None


@dataclass(slots=True)
class VirtualClock:
    """Seconds that pass only when somebody lets them."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(slots=True)
class _SimulatedPart:
    """A program that takes any valid setting at once."""

    space: Space
    world: World
    clock: VirtualClock
    facts: Mapping[str, int] = field(default_factory=lambda: dict(_FACTS))
    found: Mapping[str, Value] = field(default_factory=dict)
    identity: str = "simulated"
    values: Mapping[str, Value] = field(default_factory=dict)
    running: bool = True

    def apply(self, values: Mapping[str, Value]) -> str | None:
        qualified = {f"{self.space.component}.{name}": value for name, value in values.items()}
        culprit = self.world.failure(Configuration.of(qualified), "start")
        if culprit is not None:
            self.running = False
            raise ConfigurationError(f"the simulated program does not start with this {culprit}")
        if self.running and dict(values) == dict(self.values):
            return None
        self.clock.now_s += _RESTART_S
        self.values, self.running = dict(values), True
        return "restart"

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return dict(self.values)

    def incarnation(self) -> str:
        return ""

    def restore(self) -> str:
        self.values, self.running = dict(self.found), True
        return f"{self.space.component}: as found"


@dataclass(slots=True)
class _SimulatedEngine:
    """Runs a workload by drawing its times. The same campaign seed gives the same times again."""

    parts: Mapping[str, _SimulatedPart]
    world: World
    workload: Workload
    clock: VirtualClock

    def run(
        self, run_id: str, seed: int, make_cold: Callable[[], None], stage: Callable[[str], None]
    ) -> Report:
        configuration = _settings(self.parts)
        culprit = self.world.failure(configuration, "workload")
        if culprit is not None:
            raise WorkloadError(f"simulated mismatch in read of /sim/file, because of {culprit}")
        return _draw(run_id, self.world, self.workload, self.clock, configuration)

    def end_runs(self, prefix: str) -> None:
        """Nothing goes on by itself."""

    def clean_leftovers(self, prefix: str) -> None:
        """Nothing is ever left."""


@dataclass(frozen=True, slots=True)
class _SimulatedReference:
    """A path whose times are drawn like those of the service."""

    plan: ReferencePlan
    world: World
    workload: Workload
    clock: VirtualClock

    def run(
        self, run_id: str, seed: int, stage: Callable[[str], None]
    ) -> tuple[Report, PageCache | None]:
        ratio = self.world.references.get(self.plan.name, 1.0)
        return _draw(run_id, self.world, self.workload, self.clock, Configuration(), ratio), None

    def clean_leftovers(self, prefix: str) -> None:
        """Nothing is ever left."""


def _draw(
    run_id: str,
    world: World,
    workload: Workload,
    clock: VirtualClock,
    configuration: Configuration,
    ratio: float = 1.0,
) -> Report:
    """Draw the times of one run and let them pass."""
    # By run and not by stream: a campaign taken up again draws what it would have drawn.
    block, trial = run_id.rsplit("-", 2)[1:]
    draw = random.Random(f"{world.seed}:{block}:{trial}")
    shared = random.Random(f"{world.seed}:{block}").gauss(0.0, world.block_noise)
    components: dict[str, ComponentResult] = {}
    for name in workload.components:
        log_s = shared + world.log_change(configuration, name) + math.log(ratio)
        elapsed_s = _COMPONENT_S * math.exp(log_s + draw.gauss(0.0, world.noise))
        components[name] = ComponentResult(elapsed_s, operations=1, bytes=0)
        clock.now_s += elapsed_s
    return Report(components, 0.0, "simulated")


def _settings(parts: Mapping[str, _SimulatedPart]) -> Configuration:
    """What is in effect in all parts together."""
    return Configuration.of(
        {f"{c}.{n}": v for c, part in parts.items() for n, v in part.values.items()}
    )


class SimulatedTestbed:
    """A testbed with a known truth."""

    def __init__(
        self,
        spaces: Mapping[str, Space],
        world: World,
        found: Mapping[str, Value] | None = None,
        references: Sequence[ReferencePlan] = (),
    ) -> None:
        """``spaces`` by component; ``found``: what is set there, by qualified name."""
        self.clock = VirtualClock()
        self._world = world
        self._references = references
        of = Configuration.of(found or {})
        self._parts = {
            component: _SimulatedPart(space, world, self.clock, found=of.part(component))
            for component, space in spaces.items()
        }

    def claim(self, campaign: str) -> bool:
        """See Testbed.claim."""
        return False

    def unavailable(self) -> str | None:
        """See Testbed.unavailable."""
        return None

    def open(self, workload: Workload, say: Callable[[str], None]) -> Bench:
        """See Testbed.open."""
        for part in self._parts.values():
            part.values = dict(part.found)
        parts: dict[str, Part] = dict(self._parts)
        engine = _SimulatedEngine(self._parts, self._world, workload, self.clock)
        references = tuple(
            _SimulatedReference(plan, self._world, workload, self.clock)
            for plan in self._references
        )
        watch = Watch(workload.spec)
        return Bench(Target(parts), engine, lambda: None, watch, references)

    def close(self) -> str | None:
        """See Testbed.close."""
        return None

    @property
    def settings(self) -> Configuration:
        """What is in effect now."""
        return _settings(self._parts)
