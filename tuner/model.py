"""The records exchanged between the modules of fstune: immutable, without side effects.

Terms are those of docs/glossary.md. Times are UTC-aware, durations in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple

from tuner.states import BlockState, CampaignState, EventData, TrialState
from tuner.time_use import TimeUse

#: The value of a parameter. An unset parameter has no entry in a configuration at all.
Value = int | bool | str

#: Load from others on the machines during a run, in processors: used, stolen by the hypervisor, and
#: idle while waiting for a disk. When a client is on the machine of the server, there are only the
#: values for ``server``.
COVARIATES = (
    "others_server",
    "others_clients",
    "stolen_server",
    "stolen_clients",
    "iowait_server",
    "iowait_clients",
)

#: The trial that is in every block: the configuration as found.
BASELINE = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parameters that are set, by qualified name (``fileserver.threads``), sorted by name.

    A parameter that is not mentioned keeps the program's own default.
    """

    items: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Configuration:
        """Return the configuration with these values."""
        return cls(tuple(sorted(values.items())))

    def as_dict(self) -> dict[str, Value]:
        """Return the values by qualified name, as a new dictionary."""
        return dict(self.items)

    def part(self, name: str) -> dict[str, Value]:
        """Return the values of one part (``fileserver``) by the parameters' own names."""
        prefix = f"{name}."
        return {n.removeprefix(prefix): v for n, v in self.items if n.startswith(prefix)}

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class BlockKind(StrEnum):
    """Purpose of a block: measurements of one kind are never used for another."""

    PILOT = "pilot"
    SEARCH = "search"
    CERTIFY = "certify"


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration under evaluation. ``number``: from 0, the baseline, within its campaign.

    ``round``: the round it was proposed for (0 for the baseline). ``origin``: what proposed it.
    ``flags``: its rendered command-line options by part. ``reason``: why it is in its state, a
    sentence.
    """

    number: int
    configuration: Configuration
    round: int
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

    ``requested`` and ``effective``: the values set and the values read back, by qualified name.
    ``actions``: the actions needed to apply them (``fileserver: restart``). ``diagnostics``: what
    programs and hosts counted around the run, and evidence derived from that. ``apply_s`` and
    ``workload_s``: the duration of both. ``clients``: the components of each client by its host,
    where several ran the workload at once; ``components`` combines them (times of the slowest,
    operations and bytes of all).
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
    """The state of a client's page cache before the cold reads of a reference."""

    DROPPED = "dropped"
    NOT_CONTROLLABLE = "not_controllable"


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """One run of the workload on a path that is not tuned, within a block, but never one of its
    arms.

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
    """One block: each arm of ``order`` measured once, in that order. ``number`` counts from 1.

    ``duration_s`` is set when the block has ended. Only measurements of complete blocks count.
    ``references``: the runs of references, by position. ``testbed``: where it was measured.
    ``batch``: the number of the first of the blocks that are measured at once, on a testbed each,
    and ``slot`` its place among them; None for a block that is measured alone.
    """

    number: int
    kind: BlockKind
    round: int
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
    """A block in the form needed for judging; its fields are those of ``Block``.

    ``times_s``: the component times (s) of every measured trial, by trial, in the order of the
    workload's components. ``covariates``: of every trial with any known value, in the order of
    ``COVARIATES``, None for an unknown one.
    """

    number: int
    kind: BlockKind
    round: int
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
    """The number of blocks of one kind, in one state, on one testbed, and of their measurements.
    ``at_once``: whether they were measured on several testbeds at a time.
    """

    kind: BlockKind
    state: BlockState
    testbed: str | None
    at_once: bool
    blocks: int
    measurements: int


class Wish(StrEnum):
    """What can be requested of a running campaign."""

    PAUSE = "pause"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Request:
    """A wish that was not fulfilled yet. ``asked_by``: the host it came from."""

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
    """A finding of an earlier campaign about a configuration: its mean log time ratio to the
    baseline there. Guides proposals and is never used as evidence. ``origin``: campaign and trial.
    """

    configuration: Configuration
    difference: float
    origin: str

    @property
    def is_baseline(self) -> bool:
        """Whether it is the baseline there, which comes along with its campaign's findings."""
        return self.origin.endswith(f":{BASELINE}")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that runs a campaign. ``machine``: equal where process numbers mean the same."""

    host: str
    machine: str
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one process to use a testbed for one campaign.

    ``beat_age_s``: the time since its last heartbeat, by the clock of the database; after
    ``limit_s`` the process counts as dead. ``token``: distinguishes it from every other lease.
    """

    testbed: str
    campaign: str
    token: str
    holder: Holder
    taken: datetime
    beat_age_s: float
    limit_s: float

    def is_live(self, has_ended: Callable[[Holder], bool]) -> bool:
        """Whether its process may still use the testbed. ``has_ended``: whether a process has."""
        return self.beat_age_s <= self.limit_s and not has_ended(self.holder)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, with a one-line message. ``kind``: a stable word; ``data``:
    particulars.
    """

    number: int
    at: datetime
    kind: str
    message: str
    data: EventData = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComponentEffect:
    """The effect on one component: ratio of geometric-mean times, recommended over baseline, with
    interval.
    """

    ratio: float
    lower: float
    upper: float
    floor_held: bool


class SettingEffect(NamedTuple):
    """The effect of one setting among others: ratio of times with it over without it, with its 95%
    interval. An estimate of the search model from all measurements, which certifies nothing.
    """

    ratio: float
    lower: float
    upper: float


class Answer(StrEnum):
    """The answer with which a campaign ends."""

    RECOMMENDED = "recommended"
    NO_IMPROVEMENT = "no_improvement"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer of a campaign; the only claim made to the user.

    ``ratio``, ``lower``, ``upper``: geometric-mean time of the finalist over the baseline's on
    fresh blocks and its two-sided interval at ``confidence``; None when there was no finalist to
    certify. ``largest_compatible_improvement``: the fraction (0.03 = 3%) by which the finalist may
    still be faster; without a certificate, any finalist. ``notes``: sentences that must be read
    with it, such as that a setting costs durability. ``settings``: the effect of each of several
    settings, if known, the largest first.
    """

    #: The prefix of the note that the recommendation is no longer valid; that note comes first.
    EXPIRED: ClassVar[str] = "expired: "
    #: The beginning of the reason of a verification, which is stored like a campaign.
    VERIFICATION: ClassVar[str] = "the certificate of campaign "

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
    settings: Mapping[str, SettingEffect] = field(default_factory=dict)

    @property
    def expired(self) -> str:
        """Why its certificate is no longer valid, a sentence; "" if no such reason was recorded."""
        return next((note for note in self.notes[:1] if note.startswith(self.EXPIRED)), "")

    @property
    def verification(self) -> str:
        """Which certificate it verified and how that ended; "" unless it is the result of a
        verification, which certifies nothing itself.
        """
        return self.reason if self.reason.startswith(self.VERIFICATION) else ""


@dataclass(frozen=True, slots=True)
class Campaign:
    """One campaign as stored. ``spec``: the text of its validated specification (JSON);
    ``baseline``: set once the testbed was first read.
    """

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
