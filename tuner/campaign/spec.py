"""The specification of a campaign: a YAML file, checked whole before anything is done.

Owns the file's words, their defaults and the one line that is said about each mistake. What it
names (spaces, workload) is looked up here too, so that a campaign never starts with a part missing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

import search_spaces
from search_spaces import Risk, Space, SpaceError
from tuner.documents import Duration, Fraction, Name, ParameterValue, Section, read_document
from tuner.errors import SpecError
from tuner.testbed.simulated.document import SimulatedSection

#: Who can propose configurations; see ``tuner.propose.samplers``.
SamplerName = Literal["model", "tpe", "cmaes", "nsga2", "random", "grid"]

#: Testbeds that one process can drive.
_MOST_TESTBEDS = 32


class CellSection(Section):
    """A private cell on this machine, brought up for the campaign unless it is up already.

    The workload runs on all of its ``clients`` at once.
    """

    name: str = "default"
    clients: int = Field(default=1, ge=1)
    link: str | None = None


class TestbedSection(Section):
    """Where to measure: exactly one kind. ``hosts``: a testbed file, see ``tuner.testbed.file``."""

    __test__ = False
    cell: CellSection | None = None
    hosts: str | None = None
    simulated: SimulatedSection | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> TestbedSection:
        if sum(kind is not None for kind in (self.cell, self.hosts, self.simulated)) != 1:
            raise ValueError("name exactly one kind: 'cell: {}', 'hosts: FILE' or 'simulated: {}'")
        return self

    @property
    def kind(self) -> Literal["cell", "hosts", "simulated"]:
        """Which of them it is."""
        if self.cell is not None:
            return "cell"
        return "hosts" if self.hosts is not None else "simulated"

    @property
    def named(self) -> str | None:
        """What tells it from others of its kind; None for one that is the campaign's own."""
        if self.cell is not None:
            return self.cell.name
        return self.hosts if self.simulated is None else self.simulated.name


class SpaceSection(Section):
    """A search space and how the campaign narrows it.

    ``only``: search these parameters and no other. ``also``: search these besides the usual ones
    (negative controls, for example). ``fix``: always set these. ``range``: ``[low, high]`` or a
    list of words. ``allow_risk``: risk classes that may be searched. ``presets``: configurations of
    the space, by name, to try before anything else.
    """

    name: str
    only: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()
    fix: dict[str, ParameterValue] = Field(default_factory=dict)
    range: dict[str, tuple[ParameterValue, ...]] = Field(default_factory=dict)
    allow_risk: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


NamedSpace = Annotated[SpaceSection, BeforeValidator(_named)]


class SpacesSection(Section):
    """Which parameters may be changed: for each component a packaged search space or a file.

    A component without a space keeps the settings it was found with.
    """

    fileserver: NamedSpace | None = None
    cache_manager: NamedSpace


class WorkloadSection(Section):
    """What is measured: a packaged workload or a file, at ``scale`` times its full size."""

    name: str
    scale: float = Field(default=1.0, gt=0.0, le=1e6)


NamedWorkload = Annotated[WorkloadSection, BeforeValidator(_named)]


#: Words of campaign files of earlier releases, which are stored with their campaigns.
_FORMER = {"trials_per_race": "arms", "blocks_per_race": "blocks_per_trial"}


class SearchSection(Section):
    """How to search. ``arms``: configurations in a block, beside the baseline.
    ``blocks_per_trial``: most blocks of the search for one of them. ``sampler``: who proposes them.
    """

    arms: int = Field(default=5, ge=1, le=50)
    blocks_per_trial: int = Field(default=30, ge=3, le=1000)
    max_trials: int | None = Field(default=None, ge=1)
    sampler: SamplerName = "model"

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {_FORMER.get(str(name), name): value for name, value in given.items()}


class BudgetSection(Section):
    """What the campaign may cost: measuring time (bringing the testbed up not counted) and
    measurements.
    """

    wall_time: Duration = 3600.0
    measurements: int | None = Field(default=None, ge=8)


class PilotSection(Section):
    """The pilot: the baseline against itself, before anything is tuned. ``blocks``: at most so
    many, 0 for none. ``override``: continue despite its warning.
    """

    blocks: int = Field(default=20, ge=0, le=1000)
    override: bool = False

    @field_validator("blocks")
    @classmethod
    def _enough(cls, blocks: int) -> int:
        if 0 < blocks < 3:
            raise ValueError("a pilot takes 3 blocks at least; 0 for none")
        return blocks


class StatisticsSection(Section):
    """``delta``: smallest difference worth acting on. ``floor``: largest loss allowed to a
    component. ``adjust``: judge the gain by differences from which is taken off what others did to
    the machines.
    """

    delta: Fraction = 0.02
    floor: Fraction = 0.05
    adjust: bool = False


class CertificationSection(Section):
    """``blocks``: most fresh blocks of one attempt, of ``finalists`` trials together at most.
    ``share``: part of the budget kept for it. ``floors``: what is asked of components before
    anything is recommended: ``strict``, each is shown to keep its floor at the error of the gain;
    ``bounded``, none is shown to break it, and each is shown to keep it at the laxer error of
    ``tuner.campaign.rules.FLOOR_ALPHA``; ``auto``, strict where the pilot finds that the budget can
    show it.
    """

    blocks: int = Field(default=20, ge=3, le=1000)
    finalists: int = Field(default=1, ge=1, le=10)
    share: Fraction = 0.4
    floors: Literal["auto", "strict", "bounded"] = "auto"


def _absolute(path: str) -> str:
    if not path.startswith("/") or not path.isprintable():
        raise ValueError("write the whole path, from /")
    return path


class ReferenceSection(Section):
    """A path that is not tuned, on the first client, measured in the same blocks.

    ``every``: in every Nth block only.
    """

    name: Name
    path: Annotated[str, AfterValidator(_absolute)]
    every: int = Field(default=1, ge=1, le=1000)


class CampaignSpec(Section):
    """A whole campaign, on one ``testbed`` or on several equivalent ``testbeds`` of one kind.

    ``first``: configurations to try before the proposer's own. ``stop``: when a campaign is over:
    when its budget is used up, or as soon as something is ``certified``.
    """

    name: Name
    testbed: TestbedSection | None = None
    testbeds: tuple[TestbedSection, ...] = Field(default=(), max_length=_MOST_TESTBEDS)
    spaces: SpacesSection
    workload: NamedWorkload
    pilot: PilotSection = PilotSection()
    search: SearchSection = SearchSection()
    budget: BudgetSection = BudgetSection()
    statistics: StatisticsSection = StatisticsSection()
    certification: CertificationSection = CertificationSection()
    references: tuple[ReferenceSection, ...] = Field(default=(), max_length=20)
    seed: int = Field(default=1, ge=0, lt=2**63)
    first: tuple[dict[str, ParameterValue], ...] = ()
    stop: Literal["budget", "certified"] = "budget"

    @field_validator("references")
    @classmethod
    def _told_apart(cls, references: tuple[ReferenceSection, ...]) -> tuple[ReferenceSection, ...]:
        names = [reference.name for reference in references]
        if len(set(names)) < len(names):
            raise ValueError("two references have the same name")
        return references

    @model_validator(mode="after")
    def _somewhere(self) -> CampaignSpec:
        if (self.testbed is None) == (not self.testbeds):
            raise ValueError("name one, 'testbed: ...', or several, 'testbeds: [...]'")
        if len({place.kind for place in self.testbeds}) > 1:
            raise ValueError("testbeds: name testbeds of one kind only")
        named = [name for place in self.testbeds if (name := place.named) is not None]
        if len(set(named)) < len(named):
            raise ValueError("testbeds: two of them are the same")
        return self

    @property
    def places(self) -> tuple[TestbedSection, ...]:
        """Where it measures, one or several."""
        return self.testbeds if self.testbed is None else (self.testbed,)

    def named_places(self) -> list[tuple[str, TestbedSection]]:
        """Each place with its key in the file."""
        if self.testbed is not None:
            return [("testbed", self.testbed)]
        return [(f"testbeds.{number}", place) for number, place in enumerate(self.testbeds)]

    def at(self, places: Sequence[TestbedSection]) -> CampaignSpec:
        """The same with other ``places``, as many."""
        if self.testbed is None:
            return self.model_copy(update={"testbeds": tuple(places)})
        return self.model_copy(update={"testbed": places[0]})

    def to_json(self) -> str:
        """The checked specification with every default filled in; ``from_json`` reads it back."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> CampaignSpec:
        """The specification stored with a campaign."""
        return cls.model_validate_json(text)


def read_spec(path: Path) -> CampaignSpec:
    """Read and check a campaign file. Raises SpecError: file, key and reason, in one line.

    Relative paths in it (spaces, workload, testbed) are taken from the file's own directory.
    """
    spec = read_document(path, CampaignSpec, "a campaign file")
    return _with_resolved_paths(spec, path.resolve().parent)


def _with_resolved_paths(spec: CampaignSpec, directory: Path) -> CampaignSpec:
    def resolved(name: str) -> str:
        is_path = "/" in name or name.endswith((".yaml", ".yml", ".json"))
        return str(directory / name) if is_path else name

    def space(section: SpaceSection) -> SpaceSection:
        return section.model_copy(update={"name": resolved(section.name)})

    server = spec.spaces.fileserver
    spaces = SpacesSection(
        fileserver=None if server is None else space(server),
        cache_manager=space(spec.spaces.cache_manager),
    )
    workload = spec.workload.model_copy(update={"name": resolved(spec.workload.name)})

    def place(section: TestbedSection) -> TestbedSection:
        if section.hosts is None:
            return section
        return section.model_copy(update={"hosts": str(directory / section.hosts)})

    found = {"spaces": spaces, "workload": workload}
    return spec.at([place(section) for section in spec.places]).model_copy(update=found)


def check_parameters(spec: CampaignSpec, spaces: Mapping[str, Space]) -> None:
    """Whether every parameter that a specification names is in its spaces. Raises SpecError."""
    known = [f"{c}.{p.name}" for c, space in spaces.items() for p in space.parameters]
    named = [(f"first.{n}", name) for n, values in enumerate(spec.first) for name in values]
    for where, place in spec.named_places():
        if (world := place.simulated) is not None:
            named += [(f"{where}.simulated.{key}", name) for key, name in world.parameters()]
            _check_references(spec, f"{where}.simulated.references", world)
    for component, space in spaces.items():
        _check_presets(getattr(spec.spaces, component), space)
    for where, name in named:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise SpecError(f"{where}: no parameter {name!r} in the campaign's search spaces{hint}")


def _check_references(spec: CampaignSpec, where: str, world: SimulatedSection) -> None:
    names = [reference.name for reference in spec.references]
    for name in world.references.keys() - set(names):
        nearest = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise SpecError(f"{where}: no reference {name!r}{hint}")


def _check_presets(section: SpaceSection, space: Space) -> None:
    """Whether each preset exists."""
    where = f"spaces.{space.component}"
    of = {preset.name: preset for preset in space.presets}
    for name in section.presets:
        if name not in of:
            nearest = difflib.get_close_matches(name, of, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(of)}"
            raise SpecError(f"{where}.presets: {space.name} has no preset {name!r}; {hint}")


def load_space(section: SpaceSection, component: str) -> Space:
    """The search space that a section names, narrowed as it says. Raises SpecError."""
    try:
        space = search_spaces.load(section.name)
        if space.component != component:
            raise SpecError(f"spaces.{component}: {space.name} is a space of {space.component}")
        narrowed = space.narrow(
            only=section.only,
            also=section.also,
            fix=section.fix,
            ranges=section.range,
            allow_risk=section.allow_risk,
        )
        return narrowed if section.only is not None else _with_presets(narrowed, section)
    except SpaceError as problem:
        raise SpecError(f"spaces.{component}: {problem}") from problem


def stored_spaces(text: str) -> dict[str, Space]:
    """The spaces of a stored specification, whole, by component; none where one of them is gone.

    Of a campaign of a server only the names of its spaces are known.
    """
    try:
        named = json.loads(text)["spaces"].items()
        return {c: search_spaces.load(section["name"]) for c, section in named if section}
    except (SpaceError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _with_presets(space: Space, section: SpaceSection) -> Space:
    """The space with the risky parameters of the presets asked for searched too: whoever names a
    preset allows what it sets, alone and in other company.
    """
    named = {
        name
        for preset in space.presets
        if preset.name in section.presets
        for name in preset.values
        if space[name].risk is not Risk.PERFORMANCE and space[name].fixed is None
    }
    return space.searching(named)
