"""The specification of a campaign: a YAML file, fully checked before anything is done.

Owns the file's keys, their defaults and the one-line message for each mistake. The spaces and the
workload that it names are also looked up here, so that a campaign never starts with one missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

import search_spaces
import workloads
from search_spaces import SpaceError
from tuner.documents import (
    Duration,
    Fraction,
    FractionOrAuto,
    Name,
    NameOrPath,
    ParameterValue,
    Section,
    duplicates,
    problems,
    read_document,
    word_of,
    wrong_key,
)
from tuner.errors import SpecError
from tuner.judge.levels import MOST_BLOCKS
from tuner.services.kinds import part_order
from tuner.spec.space_section import Spaces, SpaceSection, as_section, by_part
from tuner.spec.testbed_section import TestbedSection
from tuner.text import clean

#: Samplers that can propose configurations; see ``tuner.propose.samplers``.
SamplerName = Literal["model", "tpe", "cmaes", "nsga2", "random", "grid"]

#: Maximum number of testbeds that one process can drive.
_MOST_TESTBEDS = 32
#: Maximum number of configurations in a comparison; all of them are measured in each block.
_MOST_COMPARED = 20


class WorkloadSection(Section):
    """What is measured: a packaged workload or a file, at ``scale`` times its full size."""

    name: NameOrPath
    scale: float = Field(default=1.0, gt=0.0, le=1e6)


NamedWorkload = Annotated[WorkloadSection, BeforeValidator(as_section)]


#: The context of validation for the specification of a campaign that exists.
_EXISTS = "it exists"
#: Keys of campaign files of earlier releases, which are stored with their campaigns.
_FORMER = {"trials_per_race": "arms", "blocks_per_race": "blocks_per_trial"}


#: Maximum number of blocks of a pilot or an attempt in files of earlier releases.
_FORMER_MOST_BLOCKS = 1000


class SearchSection(Section):
    """How to search. ``arms``: configurations in a block, in addition to the baseline.
    ``blocks_per_trial``: maximum number of search blocks for one of them. ``sampler``: what
    proposes them.
    """

    arms: int = Field(default=8, ge=1, le=50)
    blocks_per_trial: int = Field(default=30, ge=3, le=1000)
    max_trials: int | None = Field(default=None, ge=1)
    sampler: SamplerName = "model"

    @model_validator(mode="before")
    @classmethod
    def _with_new_names(cls, document: object) -> object:
        if not isinstance(document, dict):
            return document
        return {_FORMER.get(str(name), name): value for name, value in document.items()}


class BudgetSection(Section):
    """What the campaign may cost: measuring time (not including bringing up the testbed) and
    number of measurements.
    """

    wall_time: Duration = 3600.0
    measurements: int | None = Field(default=None, ge=8)


def _as_stored(blocks: object, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    """Check a number of blocks. A campaign that exists may have as many as were allowed once."""
    if (
        info.context == _EXISTS
        and isinstance(blocks, int)
        and MOST_BLOCKS < blocks <= _FORMER_MOST_BLOCKS
    ):
        return blocks
    return check(blocks)


class PilotSection(Section):
    """The pilot: the baseline against its twin, before anything is tuned. ``blocks``: maximum
    number of its blocks, 0 for no pilot. ``override``: continue although it advises against.
    """

    blocks: int = Field(default=20, ge=0, le=MOST_BLOCKS)
    override: bool = False

    _stored_blocks = field_validator("blocks", mode="wrap")(_as_stored)

    @field_validator("blocks")
    @classmethod
    def _enough(cls, blocks: int) -> int:
        if 0 < blocks < 3:
            raise ValueError("a pilot takes at least 3 blocks; 0 for no pilot")
        return blocks


class StatisticsSection(Section):
    """``delta``: smallest difference worth acting on. ``floor``: largest loss allowed to a
    component, ``auto`` to choose it from the results of the pilot. ``adjust``: judge the gain by
    differences that are adjusted for other load on the machines.
    """

    delta: Fraction = 0.02
    floor: FractionOrAuto = 0.05
    adjust: bool = False

    @property
    def given_floor(self) -> float | None:
        """The floor as a fraction; None if it is to be chosen."""
        return None if self.floor == "auto" else self.floor


class CertificationSection(Section):
    """``blocks``: maximum number of fresh blocks of one attempt, which covers at most ``finalists``
    trials together. ``share``: part of the budget kept for certification. ``floors``: what
    components must meet before anything is recommended: ``strict``, each is shown to keep its floor
    at the error of the gain; ``bounded``, none is shown to break it, and each is shown to keep it
    at a laxer error of 20%; ``auto``, strict if the pilot finds that the budget can show it.
    """

    blocks: int = Field(default=20, ge=3, le=MOST_BLOCKS)
    finalists: int = Field(default=1, ge=1, le=10)
    share: Fraction = 0.4
    floors: Literal["auto", "strict", "bounded"] = "auto"

    _stored_blocks = field_validator("blocks", mode="wrap")(_as_stored)


def _absolute(path: str) -> str:
    if not path.startswith("/") or not path.isprintable():
        raise ValueError("write an absolute path")
    return path


class ReferenceSection(Section):
    """A path that is not tuned, on the first client, measured in the same blocks.

    ``every``: N to measure it only in every Nth block.
    """

    name: Name
    path: Annotated[str, AfterValidator(_absolute)]
    every: int = Field(default=1, ge=1, le=1000)


class UnknownKindError(SpecError):
    """A stored specification that could be read if the kind of its testbed were installed here."""


class CampaignSpec(Section):
    """A whole campaign, on one ``testbed`` or on several equivalent ``testbeds`` of one kind.

    ``first``: configurations to try before the sampler's own. ``compare``: configurations by name,
    to compare instead of a search; for each part, the settings that differ from the baseline.
    ``warm_start``: whether similar campaigns in the same store guide the search. ``stop``: when the
    campaign ends: when its ``budget`` is used up, or as soon as something is ``certified``.
    """

    name: Name
    testbed: TestbedSection | None = None
    testbeds: tuple[TestbedSection, ...] = Field(default=(), max_length=_MOST_TESTBEDS)
    spaces: Spaces
    workload: NamedWorkload
    pilot: PilotSection = PilotSection()
    search: SearchSection = SearchSection()
    budget: BudgetSection = BudgetSection()
    statistics: StatisticsSection = StatisticsSection()
    certification: CertificationSection = CertificationSection()
    references: tuple[ReferenceSection, ...] = Field(default=(), max_length=20)
    seed: int = Field(default=1, ge=0, lt=2**63)
    first: tuple[dict[str, ParameterValue], ...] = ()
    compare: dict[Name, dict[str, dict[str, ParameterValue]]] = Field(
        default_factory=dict, max_length=_MOST_COMPARED
    )
    stop: Literal["budget", "certified"] = "budget"
    warm_start: Literal["none", "auto"] = "none"

    @model_validator(mode="before")
    @classmethod
    def _without_pilot(cls, document: object) -> object:
        """Disable the pilot of a comparison, which has nothing to plan, unless the file has one."""
        if isinstance(document, dict) and document.get("compare") and "pilot" not in document:
            return {**document, "pilot": {"blocks": 0}}
        return document

    @field_validator("name")
    @classmethod
    def _can_be_given(cls, name: str, info: ValidationInfo) -> str:
        """Refuse names by which no command could find the campaign, unless it exists already."""
        if info.context == _EXISTS:
            return name
        if name == "last":
            raise ValueError("'last' stands for the newest campaign; choose another name")
        if not any(character.isalnum() for character in name):
            raise ValueError("use at least one letter or digit")
        if name.startswith("-"):
            raise ValueError("do not begin it with '-', as options of commands do")
        return name

    @field_validator("first", mode="before")
    @classmethod
    def _in_full(cls, first: object) -> object:
        """Say how the settings of ``first`` are written to who wrote them as those of compare."""
        for guess in first if isinstance(first, list | tuple) else ():
            for part, values in guess.items() if isinstance(guess, dict) else ():
                if isinstance(values, dict) and values:
                    name, value = next(iter(values.items()))
                    raise ValueError(f"write '{part}.{name}: {word_of(value)}', one key a setting")
        return first

    @model_validator(mode="after")
    def _compares_or_searches(self) -> CampaignSpec:
        if not self.compare:
            return self
        presets = any(section.presets for section in self.spaces.values())
        for key, value in (("first", self.first), ("presets", presets)):
            if value:
                raise ValueError(f"compare: nothing is searched; leave out {key}")
        if self.statistics.adjust:
            raise ValueError("compare: adjust learns from a search; leave it out")
        for name, parts in self.compare.items():
            if not any(parts.values()):
                raise wrong_key(f"compare.{name}", "name a part, and its settings that differ")
        return self

    @model_validator(mode="after")
    def _can_choose_its_floor(self) -> CampaignSpec:
        if self.statistics.given_floor is None and not self.pilot.blocks:
            raise wrong_key("statistics.floor", "auto needs a pilot; allow one, or write a share")
        return self

    @field_validator("spaces")
    @classmethod
    def _in_order(
        cls, spaces: dict[str, SpaceSection], info: ValidationInfo
    ) -> dict[str, SpaceSection]:
        sections = [info.data.get("testbed"), *info.data.get("testbeds", ())]
        kinds = [one.kind for one in sections if one is not None]
        return by_part(spaces, kinds[0]) if kinds else spaces

    @field_validator("references")
    @classmethod
    def _distinct_references(
        cls, references: tuple[ReferenceSection, ...]
    ) -> tuple[ReferenceSection, ...]:
        names = [reference.name for reference in references]
        if len(set(names)) < len(names):
            raise ValueError("two references have the same name")
        return references

    @model_validator(mode="after")
    def _somewhere(self) -> CampaignSpec:
        if (self.testbed is None) == (not self.testbeds):
            raise ValueError("name one with 'testbed: ...' or several with 'testbeds: [...]'")
        if len({one.key for one in self.testbeds}) > 1:
            raise ValueError("testbeds: name testbeds of one kind only")
        names = [name for one in self.testbeds if (name := one.own_name) is not None]
        if twice := duplicates(names):
            raise ValueError(f"testbeds: {twice[0]} is named twice")
        return self

    @property
    def sections(self) -> tuple[TestbedSection, ...]:
        """The testbeds it measures on, one or several."""
        return self.testbeds if self.testbed is None else (self.testbed,)

    def named_sections(self) -> list[tuple[str, TestbedSection]]:
        """Each testbed with its key in the file."""
        if self.testbed is not None:
            return [("testbed", self.testbed)]
        return [(f"testbeds.{number}", one) for number, one in enumerate(self.testbeds)]

    def at(self, sections: Sequence[TestbedSection]) -> CampaignSpec:
        """Return the same specification with as many other ``sections``."""
        if self.testbed is None:
            return self.model_copy(update={"testbeds": tuple(sections)})
        return self.model_copy(update={"testbed": sections[0]})

    def to_json(self) -> str:
        """Return the checked specification with all defaults filled in, for ``from_json``."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> CampaignSpec:
        """Return the specification stored with a campaign. Raises SpecError if this fstune cannot
        read it, for example because a kind of service is not installed.
        """
        try:
            return cls.model_validate_json(text, context=_EXISTS)
        except ValidationError as problem:
            message = f"this version of fstune cannot read the campaign: {problems(problem, cls)}"
            unknown = [_is_unknown_kind(error["type"], error["loc"]) for error in problem.errors()]
            if any(unknown):
                message += "; or the package of its kind of service is not installed here"
            raise (UnknownKindError if all(unknown) else SpecError)(message) from None


def _is_unknown_kind(problem: str, place: tuple[int | str, ...]) -> bool:
    of_kind = len(place) == (3 if place[:1] == ("testbeds",) else 2)
    return problem == "extra_forbidden" and place[0] in ("testbed", "testbeds") and of_kind


def read_spec(path: Path) -> CampaignSpec:
    """Read and check a campaign file. Raises SpecError with file, key and reason in one line.

    Relative paths in it (spaces, workload, testbed) are relative to the directory of the file.
    """
    directory = path.resolve().parent

    def besides(document: Mapping[str, object]) -> list[str]:
        return _unknown_names(document, directory)

    spec = read_document(path, CampaignSpec, "a campaign file", besides)
    return _with_resolved_paths(spec, directory)


def _resolved(name: str, directory: Path) -> str:
    is_path = "/" in name or name.endswith((".yaml", ".yml", ".json"))
    return str(directory / name) if is_path else name


def _unknown_names(document: Mapping[str, object], directory: Path) -> list[str]:
    """Return a message for each workload and space that a document names but that cannot be loaded,
    as far as the document is readable.
    """

    def name_of(section: object) -> str:
        name = section.get("name") if isinstance(section, dict) else section
        return _resolved(name, directory) if isinstance(name, str) else ""

    wrong = []
    if (workload := name_of(document.get("workload"))).strip():
        try:
            workloads.load(workload)
        except workloads.SpecError as problem:
            wrong.append(clean(f"workload {workload}: {problem}"))
    sections = document.get("spaces")
    for part, section in sections.items() if isinstance(sections, dict) else ():
        if part in part_order() and (space := name_of(section)):
            try:
                search_spaces.load(space)
            except SpaceError as problem:
                wrong.append(clean(f"spaces.{part}: {problem}"))
    return wrong


def _with_resolved_paths(spec: CampaignSpec, directory: Path) -> CampaignSpec:
    def resolved(name: str) -> str:
        return _resolved(name, directory)

    def space(section: SpaceSection) -> SpaceSection:
        return section.model_copy(update={"name": resolved(section.name)})

    spaces = {part: space(section) for part, section in spec.spaces.items()}
    workload = spec.workload.model_copy(update={"name": resolved(spec.workload.name)})

    def testbed(section: TestbedSection) -> TestbedSection:
        return section.of(section.type.resolve(section.section, directory))

    update = {"spaces": spaces, "workload": workload}
    return spec.at([testbed(section) for section in spec.sections]).model_copy(update=update)
