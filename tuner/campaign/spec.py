"""The specification of a campaign: a YAML file, checked whole before anything is done.

Owns the file's words, their defaults and the one line that is said about each mistake. What it
names (spaces, workload) is looked up here too, so that a campaign never starts with a part missing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

import search_spaces
from search_spaces import Risk, Space, SpaceError
from search_spaces.reading import document as document_of
from tuner.errors import SpecError
from tuner.model import Value

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d)")
_NAME = re.compile(r"[\w .-]{1,80}")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration_s(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError("write a duration such as 90s, 8m, 6h or 3d")
        return float(match[1]) * _SECONDS[match[2]]
    return value


def _fraction(value: object) -> object:
    if isinstance(value, str):
        text = value.strip()
        try:
            return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            raise ValueError("write a share such as 2% or 0.02") from None
    return value


def _value(value: object) -> object:
    if not isinstance(value, int | str):
        raise ValueError("a value is a whole number, true or false, or text")
    return value


ParameterValue = Annotated[Value, BeforeValidator(_value)]
Duration = Annotated[float, BeforeValidator(_duration_s), Field(gt=0.0)]
Fraction = Annotated[float, BeforeValidator(_fraction), Field(gt=0.0, lt=1.0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CellSection(_Section):
    """A private cell on this machine, brought up for the campaign unless it is up already."""

    name: str = "default"
    clients: int = Field(default=1, ge=1, le=1)
    link: str | None = None


class EffectSection(_Section):
    """A true effect of a simulated testbed; see ``tuner.testbed.simulated.Effect``."""

    parameter: str
    change: float = Field(default=0.0, gt=-1.0)
    low: float | None = None
    high: float | None = None
    value: ParameterValue | None = None
    components: tuple[str, ...] = ()
    fails: Literal["", "start", "workload"] = ""


class SimulatedSection(_Section):
    """A testbed that is only arithmetic, with known effects and noise: to try fstune, and to test
    it.
    """

    noise: float = Field(default=0.014, ge=0.0)
    block_noise: float = Field(default=0.0, ge=0.0)
    seed: int = 1
    effects: tuple[EffectSection, ...] = ()
    found: dict[str, ParameterValue] = Field(default_factory=dict)


class TestbedSection(_Section):
    """Where to measure: exactly one kind."""

    __test__ = False
    cell: CellSection | None = None
    simulated: SimulatedSection | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> TestbedSection:
        if (self.cell is None) == (self.simulated is None):
            raise ValueError("name exactly one kind: 'cell: {}' or 'simulated: {}'")
        return self


class SpaceSection(_Section):
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


class SpacesSection(_Section):
    """Which parameters may be changed: for each component a packaged search space or a file.

    A component without a space keeps the settings it was found with.
    """

    fileserver: NamedSpace | None = None
    cache_manager: NamedSpace


class WorkloadSection(_Section):
    """What is measured: a packaged workload or a file, at ``scale`` times its full size."""

    name: str
    scale: float = Field(default=1.0, gt=0.0, le=1e6)


NamedWorkload = Annotated[WorkloadSection, BeforeValidator(_named)]


class SearchSection(_Section):
    """How to search. A race compares ``trials_per_race`` new configurations with the incumbent."""

    trials_per_race: int = Field(default=3, ge=1, le=50)
    blocks_per_race: int = Field(default=10, ge=3, le=1000)
    max_trials: int | None = Field(default=None, ge=1)
    sampler: Literal["tpe", "random"] = "tpe"


class BudgetSection(_Section):
    """What the campaign may cost: measuring time (bringing the testbed up not counted) and
    measurements.
    """

    wall_time: Duration = 3600.0
    measurements: int | None = Field(default=None, ge=8)


class PilotSection(_Section):
    """The pilot: the baseline against itself, before anything is tuned. ``blocks``: at most so
    many, 0 for none. ``override``: go on although the pilot advises against.
    """

    blocks: int = Field(default=20, ge=0, le=1000)
    override: bool = False

    @field_validator("blocks")
    @classmethod
    def _enough(cls, blocks: int) -> int:
        if 0 < blocks < 3:
            raise ValueError("a pilot takes 3 blocks at least; 0 for none")
        return blocks


class StatisticsSection(_Section):
    """``delta``: smallest difference worth acting on. ``floor``: largest loss allowed to a
    component.
    """

    delta: Fraction = 0.02
    floor: Fraction = 0.05


class CertificationSection(_Section):
    """``blocks``: most fresh blocks for the finalists, of which there are ``finalists`` at most.
    ``share``: part of the budget kept for them.
    """

    blocks: int = Field(default=20, ge=3, le=1000)
    finalists: int = Field(default=1, ge=1, le=10)
    share: Fraction = 0.4


def _name(value: object) -> object:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError("use 1 to 80 letters, digits, spaces, dots, hyphens and underscores")
    return value


Name = Annotated[str, BeforeValidator(_name)]


class CampaignSpec(_Section):
    """A whole campaign. ``first``: configurations to try before the proposer's own."""

    name: Name
    testbed: TestbedSection
    spaces: SpacesSection
    workload: NamedWorkload
    pilot: PilotSection = PilotSection()
    search: SearchSection = SearchSection()
    budget: BudgetSection = BudgetSection()
    statistics: StatisticsSection = StatisticsSection()
    certification: CertificationSection = CertificationSection()
    seed: int = Field(default=1, ge=0, lt=2**63)
    first: tuple[dict[str, ParameterValue], ...] = ()

    def to_json(self) -> str:
        """The checked specification with every default filled in; ``from_json`` reads it back."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> CampaignSpec:
        """The specification stored with a campaign."""
        return cls.model_validate_json(text)


def read_spec(path: Path) -> CampaignSpec:
    """Read and check a campaign file. Raises SpecError: file, key and reason, in one line.

    Relative paths of spaces and workloads in it are taken from the file's own directory.
    """
    try:
        document = document_of(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path}: there is no such campaign file") from None
    except OSError as problem:
        raise SpecError(f"{path}: cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise SpecError(f"{path}: cannot be read: it is not UTF-8 text") from problem
    except RecursionError:
        raise SpecError(f"{path}: not a campaign file: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise SpecError(f"{path}: not YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(document, dict):
        raise SpecError(f"{path}: a campaign file is a mapping that starts with 'name:'")
    try:
        spec = CampaignSpec.model_validate(document)
    except ValidationError as problem:
        raise SpecError(f"{path}: {_first_problem(problem)}") from None
    return _with_resolved_paths(spec, path.resolve().parent)


def _first_problem(problem: ValidationError) -> str:
    error = problem.errors(include_url=False)[0]
    where = ".".join(str(part) for part in error["loc"]) or "the file"
    if error["type"] == "missing":
        return f"{where}: missing"
    if error["type"] == "extra_forbidden":
        known = _words_beside(error["loc"])
        nearest = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known: {', '.join(known)}"
        return f"{where}: unknown key{hint}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message[0].lower()}{message[1:]}"


def _words_beside(location: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    model: type[BaseModel] = CampaignSpec
    for part in location[:-1]:
        if isinstance(part, str):  # else the place in a list
            model = next(_models_in(model.model_fields[part].annotation))
    return sorted(model.model_fields)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


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
    return spec.model_copy(update={"spaces": spaces, "workload": workload})


def check_parameters(spec: CampaignSpec, spaces: Mapping[str, Space]) -> None:
    """Whether every parameter that a specification names is in its spaces. Raises SpecError."""
    known = [f"{c}.{p.name}" for c, space in spaces.items() for p in space.parameters]
    named = [(f"first.{n}", name) for n, values in enumerate(spec.first) for name in values]
    if (world := spec.testbed.simulated) is not None:
        named += [
            (f"testbed.simulated.effects.{n}", e.parameter) for n, e in enumerate(world.effects)
        ]
        named += [("testbed.simulated.found", name) for name in world.found]
    for component, space in spaces.items():
        _check_presets(getattr(spec.spaces, component), space)
    for where, name in named:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise SpecError(f"{where}: no parameter {name!r} in the campaign's search spaces{hint}")


def _check_presets(section: SpaceSection, space: Space) -> None:
    """Whether each preset exists, and sets nothing that the campaign does not allow."""
    where = f"spaces.{space.component}"
    of = {preset.name: preset for preset in space.presets}
    for name in section.presets:
        if name not in of:
            nearest = difflib.get_close_matches(name, of, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(of)}"
            raise SpecError(f"{where}.presets: {space.name} has no preset {name!r}; {hint}")
        for parameter in of[name].values:
            risk = space[parameter].risk
            if risk is not Risk.PERFORMANCE and risk not in section.allow_risk:
                raise SpecError(
                    f"{where}.presets: {name!r} sets {parameter}, a matter of {risk}; "
                    f"allow it with allow_risk: [{risk}]"
                )


def load_space(section: SpaceSection, component: str) -> Space:
    """The search space that a section names, narrowed as it says. Raises SpecError."""
    try:
        space = search_spaces.load(section.name)
        if space.component != component:
            raise SpecError(f"spaces.{component}: {space.name} is a space of {space.component}")
        return space.narrow(
            only=section.only,
            also=section.also,
            fix=section.fix,
            ranges=section.range,
            allow_risk=section.allow_risk,
        )
    except SpaceError as problem:
        raise SpecError(f"spaces.{component}: {problem}") from problem
