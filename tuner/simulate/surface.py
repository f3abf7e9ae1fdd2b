"""A surface: a simulated service with its search spaces, defined in a file, and its ground truth.

Owns the file format, the lookup of surfaces, and the queries on one: the true performance of a
configuration, whether it runs at all, and which one is the best.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic import Field, field_validator

from search_spaces import Space, SpaceError
from tuner.documents import Name, Section, read_document
from tuner.errors import SpecError
from tuner.measure.workload import Workload, load_workload
from tuner.model import Configuration
from tuner.services.simulated import World
from tuner.services.simulated.document import SimulatedSection, world_of
from tuner.services.simulated.kind import SIMULATED
from tuner.services.simulated.testbed import FACTS
from tuner.simulate.best import Truth, best_configuration
from tuner.simulate.sampler import Sampler
from tuner.spec.campaign import NamedWorkload, StatisticsSection, WorkloadSection
from tuner.spec.space_section import Spaces, SpaceSection, by_part, load_space

#: The surfaces of a checkout; an installed fstune has none and needs explicit paths.
SURFACES = Path(__file__).resolve().parents[2] / "bench" / "surfaces"


class SurfaceFile(Section):
    """A surface file. ``about``: description of its hidden effects, for people. ``statistics``: the
    settings of campaigns on it; its floor also applies to the best configuration.
    """

    name: Name
    about: str = Field(min_length=1)
    spaces: Spaces
    workload: NamedWorkload = WorkloadSection(name="mixed-use")
    statistics: StatisticsSection = StatisticsSection()
    simulated: SimulatedSection

    @field_validator("spaces")
    @classmethod
    def _in_order(cls, spaces: dict[str, SpaceSection]) -> dict[str, SpaceSection]:
        return by_part(spaces, SIMULATED)

    @field_validator("statistics")
    @classmethod
    def _needs_a_floor(cls, statistics: StatisticsSection) -> StatisticsSection:
        if statistics.given_floor is None:
            raise ValueError("floor: the true effects are judged by it, so write a share, not auto")
        return statistics


@dataclass(frozen=True)
class Surface:
    """A loaded surface. ``spaces``: by part of the service. ``known_best``: its best configuration
    and score, if they are known without a search.
    """

    file: SurfaceFile
    spaces: Mapping[str, Space]
    workload: Workload
    world: World
    known_best: tuple[Configuration, float] | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.file.name

    @cached_property
    def components(self) -> tuple[str, ...]:
        """The components of the workload."""
        return self.workload.components

    @property
    def floor(self) -> float:
        """The largest loss allowed to a component, a fraction."""
        own = self.file.statistics.given_floor
        assert own is not None  # see SurfaceFile
        return own

    @cached_property
    def baseline(self) -> Configuration:
        """The configuration as found."""
        return Configuration.of(self.file.simulated.found)

    @cached_property
    def _baseline_logs(self) -> tuple[float, ...]:
        return self.world.log_changes(self.baseline, self.components)

    def truth(self, configuration: Configuration) -> Truth:
        """Return the true performance of a configuration that runs."""
        logs = self.world.log_changes(configuration, self.components)
        ratios = [log - baseline for log, baseline in zip(logs, self._baseline_logs, strict=True)]
        score = sum(w * log for w, log in zip(self.workload.weights, ratios, strict=True))
        return Truth(score, dict(zip(self.components, ratios, strict=True)))

    def violations(self, configuration: Configuration) -> list[str]:
        """Return why a configuration is invalid in its search spaces; empty if it is valid."""
        return [
            f"{component}: {wrong}"
            for component, space in self.spaces.items()
            for wrong in space.violations(configuration.part(component), FACTS)
        ]

    def failure(self, configuration: Configuration) -> str | None:
        """Return how a configuration fails, ``start`` or ``workload``; None if it runs."""
        for kind in ("start", "workload"):
            if self.world.failure(configuration, kind) is not None:
                return kind
        return None

    def feasible(self, configuration: Configuration) -> bool:
        """Return whether a configuration is valid and runs."""
        return self.failure(configuration) is None and not self.violations(configuration)

    @cached_property
    def best(self) -> tuple[Configuration, float]:
        """The fastest configuration that runs and keeps the floor, and its true log score."""
        return self.known_best or best_configuration(self, self.floor)

    def keeps(self, configuration: Configuration) -> bool:
        """Return whether a configuration is feasible and no component loses more than the floor."""
        return self.feasible(configuration) and self.truth(configuration).keeps(self.floor)

    def regret(self, configuration: Configuration) -> float:
        """Return how much slower than the best a configuration is, in log score. One that is not
        feasible or breaks the floor counts as no better than the baseline.
        """
        score = self.truth(configuration).score
        return (score if self.keeps(configuration) else max(score, 0.0)) - self.best[1]

    def sampler(self, seed: int, noise: float | None = None) -> Sampler:
        """Return a sampler of blocks, without a campaign. ``noise``: of a component, to replace
        that of the surface.
        """
        world = replace(self.world, seed=seed)
        if noise is not None:
            world = replace(world, noise=replace(world.noise, component=noise))
        return Sampler(world, self.components, self.baseline, tuple(self.spaces))


def surface_names() -> list[str]:
    """Return the names of this checkout's surfaces; none if fstune is installed without one."""
    return sorted(path.stem for path in SURFACES.glob("*.yaml"))


def load_surface(name_or_path: str) -> Surface:
    """Load a surface by name or path. Raises SpecError: file, key and reason, in one line."""
    path = _path(name_or_path)
    file = read_document(path, SurfaceFile, "a surface file")
    try:
        return _ready(file)
    except SpecError as problem:
        raise SpecError(f"{path}: {problem}") from problem


def _path(name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    names = surface_names()
    if name_or_path in names:
        return SURFACES / f"{name_or_path}.yaml"
    nearest = difflib.get_close_matches(name_or_path, names, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else _names_text(names)
    raise SpecError(f"no surface {name_or_path!r}; {hint}")


def _names_text(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "give the path of a surface file"


def _ready(file: SurfaceFile) -> Surface:
    spaces = {part: load_space(section, part) for part, section in file.spaces.items()}
    workload = load_workload(file.workload.name, file.workload.scale)
    for key, name in file.simulated.parameters():
        _check_parameter(f"simulated.{key}", name, spaces)
    world = world_of(file.simulated, spaces, workload.components)
    surface = Surface(file, spaces, workload, world)
    if wrong := surface.violations(surface.baseline):
        raise SpecError(f"simulated.found: {wrong[0]}")
    if (how := surface.failure(surface.baseline)) is not None:
        raise SpecError(f"simulated.effects: the configuration as found fails ({how})")
    return surface


def _check_parameter(where: str, name: str, spaces: Mapping[str, Space]) -> None:
    component, _, own = name.partition(".")
    if component not in spaces:
        parts = " or ".join(f"{part}.NAME" for part in spaces)
        raise SpecError(f"{where}: no parameter {name!r}; write {parts}")
    try:
        spaces[component][own]
    except SpaceError as problem:
        raise SpecError(f"{where}: {problem}") from problem
