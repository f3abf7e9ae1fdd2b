"""The simulated testbed: parts that accept any setting, and an engine that draws times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from search_spaces import Space
from tuner.errors import ConfigurationError, TestbedError, WorkloadError
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload
from tuner.measure.workload_run import LEFTOVERS_S, Report
from tuner.model import ComponentResult, Configuration, Value
from tuner.services.lasting import JournalState
from tuner.services.part import NotInEffect, Part
from tuner.services.simulated.noise import Run
from tuner.services.simulated.world import World
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed, Unavailable
from workloads.spec import Stage

#: The limits of the simulated hosts.
FACTS: Mapping[str, int] = {
    "net_core_rmem_max": 4 << 20,
    "memory_bytes": 16 << 30,
    "nofile": 65536,
    "fixed_command_length": 40,
    "cache_partition_bytes": 16 << 30,
    "cacheinfo_blocks": 200_000,
}


#: Ten years: longer than any campaign; databases do not accept much longer times.
_LONGEST_S = 10 * 366 * 86_400.0


@dataclass(slots=True)
class VirtualClock:
    """A clock in seconds that is only advanced by ``advance``."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Advance the clock. Raises TestbedError when it would exceed the limit."""
        if self.now_s + seconds > _LONGEST_S:
            raise TestbedError(
                "the simulated testbed takes longer than ten years; give it less noise, smaller "
                "effects or shorter costs"
            )
        self.now_s += seconds


class Keeping(Protocol):
    """Persistence of the settings in force; see the methods of ``Keeper``."""

    def in_force(self, part: str, otherwise: Mapping[str, Value]) -> dict[str, Value]: ...

    def change(
        self, part: str, initial: Mapping[str, Value], settings: Mapping[str, Value]
    ) -> None: ...

    def journal(self, part: str, name: str) -> JournalState: ...

    def keep(self, part: str, name: str) -> None: ...

    def reopen(self, part: str, name: str) -> None: ...

    def restore(self, part: str) -> None: ...

    def kept_names(self) -> set[str]: ...


@dataclass(slots=True)
class _SimulatedPart:
    """A part that applies any valid setting immediately.

    ``before``: the parts that are started before it; whether it starts may depend on their settings
    too.
    """

    space: Space
    world: World
    clock: VirtualClock
    facts: Mapping[str, int] = field(default_factory=lambda: dict(FACTS))
    initial: Mapping[str, Value] = field(default_factory=dict)
    identity: str = "simulated"
    values: Mapping[str, Value] = field(default_factory=dict)
    running: bool = True
    before: Mapping[str, _SimulatedPart] = field(default_factory=dict)
    keeper: Keeping | None = None
    #: Whether it was restarted since the last run.
    restarted: bool = False

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        own = {f"{self.space.part}.{name}": value for name, value in values.items()}
        up = Configuration.of(_settings(self.before).as_dict() | own)
        culprit = self.world.failure(up, "start", parts={*self.before, self.space.part})
        if culprit is not None:
            self.clock.advance(self.world.costs.restart_s(self.space.part))
            self.running = False
            self._record(values)
            raise ConfigurationError(f"the simulated program does not start with this {culprit}")
        if self.running and not restart and dict(values) == dict(self.values):
            return None
        self.clock.advance(self.world.costs.restart_s(self.space.part))
        self.values, self.running, self.restarted = dict(values), True, True
        self._record(values)
        return "restart"

    def _record(self, values: Mapping[str, Value]) -> None:
        if self.keeper is not None:
            self.keeper.change(self.space.part, self.initial, values)

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        if dict(values) != dict(self.values):
            difference = f"{dict(values)} is not in effect: it shows {dict(self.values)}"
            raise NotInEffect(f"{self.space.part}: {difference}")
        return dict(self.values)

    def incarnation(self) -> str:
        return ""

    def restore(self) -> str:
        if self.keeper is not None:
            self.keeper.restore(self.space.part)
            self.initial = self.keeper.in_force(self.space.part, self.initial)
        self.values, self.running = dict(self.initial), True
        return f"{self.space.part}: as found"

    @property
    def how_changed(self) -> str:
        """See LastingPart.how_changed."""
        return "is restarted"

    @property
    def outlives_restart(self) -> bool:
        """See LastingPart.outlives_restart."""
        return True

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        return "a simulated testbed keeps them in the state directory"

    def journals(self, name: str) -> frozenset[JournalState]:
        """See LastingPart.journals."""
        return frozenset({self._keeper().journal(self.space.part, name)})

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        self._keeper().keep(self.space.part, name)

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        self._keeper().reopen(self.space.part, name)

    def changed_since(self, name: str) -> tuple[str, ...]:
        """See LastingPart.changed_since: ``initial`` shows everything."""
        return ()

    def _keeper(self) -> Keeping:
        if self.keeper is None:
            raise TestbedError("this simulated testbed was not opened for lasting changes")
        return self.keeper


@dataclass(frozen=True, slots=True)
class _SimulatedRun:
    """A run whose stages take no time: all times are drawn for its report."""

    stages: Sequence[Stage]
    report: Callable[[], Report]

    def measure(self, stage: Stage) -> None:
        """See Run.measure."""


@dataclass(slots=True)
class _SimulatedEngine:
    """Runs a workload by drawing its times. ``ratio``: of these to those of the service;
    ``restart_ratio``: of those of the next run, for the parts restarted since the last one.

    The seed of a run is that of its files, and there are none here: the noise follows from the seed
    of the world, the block and the trial.
    """

    world: World
    stages: Sequence[Stage]
    draw: _Draw
    settings: Callable[[], Configuration]
    ratio: float = 1.0
    restart_ratio: Callable[[], float] = lambda: 1.0

    def run(self, run_id: str, seed: int) -> AbstractContextManager[_SimulatedRun]:
        """See Engine.run."""
        return nullcontext(_SimulatedRun(self.stages, partial(self.report, run_id)))

    def report(self, run_id: str) -> Report:
        """See Run.report."""
        configuration = self.settings()
        report = self.draw(run_id, configuration, self.ratio * self.restart_ratio())
        culprit = self.world.failure(configuration, "workload")
        if culprit is not None:
            raise WorkloadError(f"simulated mismatch in read of /sim/file, because of {culprit}")
        return report

    def end_runs(self, prefix: str) -> None:
        """Nothing runs in the background."""

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        """Runs leave nothing behind."""
        self.end_runs(prefix)
        return ()


@dataclass(frozen=True, slots=True)
class _SimulatedReference:
    """A reference whose times are drawn like those of the service."""

    plan: ReferencePlan
    engine: _SimulatedEngine

    def make_cold(self, run_id: str) -> None:
        """It has no cache."""


@dataclass(slots=True)
class _Draw:
    """Draws the times of runs and advances the clock by them."""

    world: World
    workload: Workload
    clock: VirtualClock
    _block: str = ""
    _position: int = -1

    def __call__(self, run_id: str, configuration: Configuration, ratio: float) -> Report:
        block, trial = run_id.rsplit("-", 2)[1:]
        self._position = self._position + 1 if block == self._block else 0
        self._block = block
        run = Run(self.world.seed, block, trial, self._position)
        times = self.world.times(run, configuration, self.workload.components, ratio)
        self.clock.advance(times.total_s)
        components = {
            name: ComponentResult(elapsed_s, operations=1, bytes=0)
            for name, elapsed_s in times.seconds.items()
        }
        return Report(components, times.cpu_s, "simulated", diagnostics=times.diagnostics)


def _settings(parts: Mapping[str, _SimulatedPart]) -> Configuration:
    """The settings in effect in all parts."""
    return Configuration.of(
        {f"{c}.{n}": v for c, part in parts.items() for n, v in part.values.items()}
    )


class SimulatedTestbed:
    """A testbed with a known ground truth."""

    def __init__(
        self,
        spaces: Mapping[str, Space],
        world: World,
        initial: Mapping[str, Value] | None = None,
        references: Sequence[ReferencePlan] = (),
        *,
        keeper: Keeping | None = None,
    ) -> None:
        """``spaces``: by part; ``initial``: the initial settings, by qualified name;
        ``keeper``: stores applied configurations; without one, none can stay.
        """
        self.remarks: tuple[str, ...] = ()
        self.clock = VirtualClock()
        self._world = world
        self._references = references
        self._keeper = keeper
        of = Configuration.of(initial or {})
        self._parts: dict[str, _SimulatedPart] = {}
        for name, space in spaces.items():
            self._parts[name] = _SimulatedPart(
                space,
                world,
                self.clock,
                initial=of.part(name),
                before=dict(self._parts),
                keeper=keeper,
            )

    def claim(self, campaign: str) -> bool:
        """See Testbed.claim."""
        return False

    def unavailable(self) -> Unavailable | None:
        """See Testbed.unavailable."""
        return None

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        """See Testbed.open."""
        for part in self._parts.values():
            keeper = part.keeper
            part.values = dict(part.initial)
            if keeper is not None:
                part.values = keeper.in_force(part.space.part, part.initial)
        parts: dict[str, Part] = dict(self._parts)
        draw = _Draw(self._world, workload, self.clock)
        stages = workload.spec.stages
        untuned = _SimulatedEngine(self._world, stages, draw, Configuration)
        settings = partial(_settings, self._parts)
        engine = replace(untuned, settings=settings, restart_ratio=self._restart_ratio)
        references = tuple(
            _SimulatedReference(plan, replace(untuned, ratio=ratio))
            for plan in self._references
            for ratio in [self._world.references.get(plan.name, 1.0)]
        )
        watch = Watch(workload.spec)
        return ReadyTestbed(Target(parts), engine, lambda: None, watch, references)

    def _restart_ratio(self) -> float:
        """The ratio of the next run's times for the parts restarted since the last one."""
        names = [name for name, part in self._parts.items() if part.restarted]
        for name in names:
            self._parts[name].restarted = False
        return self._world.restart_ratio(names)

    def close(self) -> str | None:
        """See Testbed.close."""
        return None

    def kept_names(self) -> dict[str, str]:
        """See LastingTestbed.kept_names."""
        names = set[str]() if self._keeper is None else self._keeper.kept_names()
        return dict.fromkeys(names, "the simulated testbed")

    @property
    def world(self) -> World:
        """Its ground truth."""
        return self._world

    @property
    def settings(self) -> Configuration:
        """The settings in effect now."""
        return _settings(self._parts)
