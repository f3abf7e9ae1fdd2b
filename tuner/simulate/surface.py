"""A surface: a simulated service with its search spaces, in a file, and all that is true of it.

Owns the file's words, where surfaces are found, and the questions that can be asked of one: how
fast a configuration truly is, whether it runs at all, and which is the best.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pydantic import Field, field_validator

from search_spaces import Space, SpaceError
from tuner.campaign.space_section import Spaces, SpaceSection, by_part, load_space
from tuner.campaign.spec import NamedWorkload, StatisticsSection, WorkloadSection
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

#: Where the surfaces of a checkout are; an installed fstune has none, and is given paths.
SURFACES = Path(__file__).resolve().parents[2] / "bench" / "surfaces"


class SurfaceFile(Section):
    """A surface file. ``about``: what is hidden in it, for people. ``statistics``: what campaigns
    on it ask for; its floor is also that of the best configuration.
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
            raise ValueError("floor: the truth is judged by it, so that it is a share, not auto")
        return statistics


@dataclass(frozen=True)
class Surface:
    """A surface that is ready to be asked. ``spaces`` by component of the service."""

    file: SurfaceFile
    spaces: Mapping[str, Space]
    workload: Workload
    world: World
    _best: dict[float, tuple[Configuration, float]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Its name."""
        return self.file.name

    @property
    def components(self) -> tuple[str, ...]:
        """The components of the workload."""
        return self.workload.components

    @property
    def floor(self) -> float:
        """The largest loss that a component may have, as a fraction."""
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
        """What is true of a configuration that runs."""
        logs = self.world.log_changes(configuration, self.components)
        ratios = [log - baseline for log, baseline in zip(logs, self._baseline_logs, strict=True)]
        score = sum(w * log for w, log in zip(self.workload.weights, ratios, strict=True))
        return Truth(score, dict(zip(self.components, ratios, strict=True)))

    def violations(self, configuration: Configuration) -> list[str]:
        """Why a configuration is not valid in its search spaces; empty if it is."""
        return [
            f"{component}: {wrong}"
            for component, space in self.spaces.items()
            for wrong in space.violations(configuration.part(component), FACTS)
        ]

    def failure(self, configuration: Configuration) -> str | None:
        """How a configuration goes wrong, ``start`` or ``workload``; None when it runs."""
        for kind in ("start", "workload"):
            if self.world.failure(configuration, kind) is not None:
                return kind
        return None

    def feasible(self, configuration: Configuration) -> bool:
        """Whether a configuration is valid and runs."""
        return self.failure(configuration) is None and not self.violations(configuration)

    def best(self, floor: float | None = None) -> tuple[Configuration, float]:
        """The fastest configuration that runs and keeps the floor (its own, or another), and its
        true log score.
        """
        kept_floor = self.floor if floor is None else floor
        if kept_floor not in self._best:
            self._best[kept_floor] = best_configuration(self, kept_floor)
        return self._best[kept_floor]

    def keeps(self, configuration: Configuration) -> bool:
        """Whether a configuration is feasible and no component loses more than the floor."""
        return self.feasible(configuration) and self.truth(configuration).keeps(self.floor)

    def regret(self, configuration: Configuration) -> float:
        """How much slower than the best a configuration is, in log score. One that is not feasible,
        or breaks the floor, is worth no more than the baseline.
        """
        score = self.truth(configuration).score
        return (score if self.keeps(configuration) else max(score, 0.0)) - self.best()[1]

    def sampler(self, seed: int, noise: float | None = None) -> Sampler:
        """Measures blocks of configurations, without a campaign. ``noise``: of a component, in
        place of its own.
        """
        world = replace(self.world, seed=seed)
        if noise is not None:
            world = replace(world, noise=replace(world.noise, component=noise))
        return Sampler(world, self.components, self.baseline, tuple(self.spaces))


def surface_names() -> list[str]:
    """The surfaces of this checkout; none where fstune is installed without it."""
    return sorted(path.stem for path in SURFACES.glob("*.yaml"))


def load_surface(name_or_path: str) -> Surface:
    """A surface by name or path. Raises SpecError: file, key and reason, in one line."""
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
