"""The records that the parts of fstune hand to each other: frozen, without behaviour that touches
the world.

Words are those of docs/glossary.md. Times are UTC-aware, durations in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from tuner.states import BlockState, CampaignState, TrialState
from tuner.time_use import TimeUse

#: A value of one parameter. An unset parameter has no entry in a configuration at all.
Value = int | bool | str

#: What others did to the machines during a run, in processors: used, stolen by the hypervisor, and
#: idle for want of a disk. Where a client is on the server's machine, ``server`` is all there is.
COVARIATES = (
    "others_server",
    "others_clients",
    "stolen_server",
    "stolen_clients",
    "iowait_server",
    "iowait_clients",
)

#: The trial that every block contains: the configuration as found.
BASELINE = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parameters that are set, each by its qualified name (``fileserver.threads``), sorted by
    name.

    A parameter that is not mentioned is left to the program's own default.
    """

    items: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Configuration:
        """The configuration with these values."""
        return cls(tuple(sorted(values.items())))

    def as_dict(self) -> dict[str, Value]:
        """The values by qualified name, a fresh dictionary."""
        return dict(self.items)

    def part(self, component: str) -> dict[str, Value]:
        """The values of one component (``fileserver``) by the parameters' own names."""
        prefix = f"{component}."
        return {name.removeprefix(prefix): v for name, v in self.items if name.startswith(prefix)}

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class BlockKind(StrEnum):
    """What a block is for: measurements of one kind are never used for the other."""

    PILOT = "pilot"
    SEARCH = "search"
    CERTIFY = "certify"


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration under evaluation. ``number`` counts from 0, the baseline, within its
    campaign.

    ``race``: the race it was proposed for (0 for the baseline). ``origin``: who proposed it.
    ``flags``: its rendered command-line options by component. ``reason``: why it is in its state, a
    sentence.
    """

    number: int
    configuration: Configuration
    race: int
    origin: str
    state: TrialState
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ComponentResult:
    """One timed component of one workload run. Latencies are quantiles over its operations."""

    elapsed_s: float
    operations: int
    bytes: int
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One workload run of one arm.

    ``requested`` and ``effective``: what was asked for and what was read back, by qualified name.
    ``actions``: what had to be done to get there (``fileserver: restart``). ``diagnostics``:
    what was counted around the run, and what that proves. ``apply_s`` and ``workload_s``: how long
    both took.
    ``clients``: the components of each client by its host, where several ran the workload at once;
    ``components`` puts them together (times of the slowest, operations and bytes of all).
    """

    trial: int
    position: int
    started: datetime
    requested: Configuration
    effective: Configuration
    actions: tuple[str, ...]
    apply_s: float
    workload_s: float
    components: Mapping[str, ComponentResult]
    diagnostics: Mapping[str, float | str] = field(default_factory=dict)
    engine_sha256: str = ""
    seed: int = 0
    clients: Mapping[str, Mapping[str, ComponentResult]] = field(default_factory=dict)


class PageCache(StrEnum):
    """What became of a client's page cache before a reference's cold reads."""

    DROPPED = "dropped"
    NOT_CONTROLLABLE = "not_controllable"


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """One run of the workload on a path that is not tuned, within a block, never an arm of it.

    ``position``: the number of arms that the block began before it. ``page_cache``: None when the
    workload has no cold stage.
    """

    name: str
    position: int
    started: datetime
    workload_s: float
    components: Mapping[str, ComponentResult]
    page_cache: PageCache | None = None
    engine_sha256: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One round: each arm of ``order`` measured once, in that order. ``number`` counts from 1.

    ``duration_s`` is known when the block has ended. Only the measurements of a complete block
    count. ``references``: what was measured beside the arms, by position. ``testbed``: where.
    ``batch``: the number of the first of the blocks that are measured at once, on a testbed each,
    and ``slot`` its place among them; None for a block that is measured alone.
    """

    number: int
    kind: BlockKind
    race: int
    order: tuple[int, ...]
    state: BlockState
    measurements: tuple[Measurement, ...] = ()
    duration_s: float = 0.0
    reason: str = ""
    references: tuple[ReferenceRun, ...] = ()
    testbed: str | None = None
    batch: int | None = None
    slot: int = 0


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """A block as judging needs it; its fields are those of ``Block``.

    ``times_s``: the component times (s) of every trial that it has measured, by trial, in the order
    of the workload's components. ``covariates``: of every trial for which any is known, in the
    order of ``COVARIATES``, None for one that is not.
    """

    number: int
    kind: BlockKind
    race: int
    order: tuple[int, ...]
    state: BlockState
    duration_s: float
    reason: str
    testbed: str | None
    times_s: Mapping[int, tuple[float, ...]]
    batch: int | None = None
    slot: int = 0
    covariates: Mapping[int, tuple[float | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BlockCount:
    """How many blocks of one kind, in one state, on one testbed there are, and how much they have
    measured. ``at_once``: whether they were measured on several testbeds at a time.
    """

    kind: BlockKind
    state: BlockState
    testbed: str | None
    at_once: bool
    blocks: int
    measurements: int


class Wish(StrEnum):
    """What can be asked of a running campaign."""

    PAUSE = "pause"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Request:
    """A wish that nobody has answered yet. ``asked_by``: the host it came from."""

    wish: Wish
    asked_by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Aspect:
    """One of the things that a campaign measures with: ``document`` is JSON, ``digest`` its
    SHA-256.
    """

    digest: str
    document: object


@dataclass(frozen=True, slots=True)
class Prior:
    """What an earlier campaign found of a configuration: its mean log time ratio to the baseline
    there. It guides proposals and is evidence for nothing. ``origin``: campaign and trial.
    """

    configuration: Configuration
    difference: float
    origin: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that runs a campaign. ``machine``: equal where process numbers mean the same."""

    host: str
    machine: str
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The use of a testbed by one process for one campaign.

    ``beat_age_s``: since its last sign of life, by the clock of the database; after ``limit_s`` it
    counts as dead. ``token``: tells it from every other lease.
    """

    testbed: str
    campaign: str
    token: str
    holder: Holder
    taken: datetime
    beat_age_s: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, told in one line. ``kind`` is a stable word, ``data`` its
    particulars.
    """

    number: int
    at: datetime
    kind: str
    message: str
    data: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComponentEffect:
    """The effect on one component: ratio of geometric-mean times, recommended over baseline, with
    interval.
    """

    ratio: float
    lower: float
    upper: float
    floor_held: bool


class Answer(StrEnum):
    """How a campaign ends."""

    RECOMMENDED = "recommended"
    NO_IMPROVEMENT = "no_improvement"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer of a campaign; the only claim that the user is given.

    ``ratio``, ``lower``, ``upper``: geometric-mean time of the finalist over the baseline's on
    fresh blocks and its two-sided interval at ``confidence``; None when there was no finalist to
    certify. ``largest_compatible_improvement``: fraction (0.03 = 3%) by which the finalist may
    still be faster; without a certificate, any finalist. ``notes``: sentences that must be read
    with it, such as that a setting costs durability.
    """

    #: How the note begins that says that it does not hold any more; it comes first.
    EXPIRED: ClassVar[str] = "expired: "

    answer: Answer
    reason: str
    trial: int
    configuration: Configuration
    baseline: Configuration
    flags: Mapping[str, tuple[str, ...]]
    baseline_flags: Mapping[str, tuple[str, ...]]
    confidence: float
    blocks: int
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None
    largest_compatible_improvement: float | None = None
    e_value: float | None = None
    threshold: float | None = None
    components: Mapping[str, ComponentEffect] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def expired(self) -> str:
        """Why its certificate does not hold any more, a sentence; "" where nobody has noted it."""
        return next((note for note in self.notes[:1] if note.startswith(self.EXPIRED)), "")


@dataclass(frozen=True, slots=True)
class Campaign:
    """One search as stored. ``spec`` is the text of its specification as checked (JSON),
    ``baseline`` is known once the testbed was first read."""

    id: str
    name: str
    state: CampaignState
    spec: str
    seed: int
    created: datetime
    updated: datetime
    reason: str = ""
    baseline: Configuration | None = None
    recommendation: Recommendation | None = None
    time_use: TimeUse = field(default_factory=TimeUse)
