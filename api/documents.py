"""JSON documents returned by the API, converted from stored records.

Times are in UTC, durations in seconds. Ratios are times relative to the baseline (below 1: faster).
Unknown values and infinite bounds are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from tuner.judge.verdict import Outcome, Verdict
from tuner.model import Block, BlockKind, Campaign, Configuration, Measurement, Value
from tuner.page.names import names
from tuner.records.named_comparison import NamedComparison, ShownEffect, Word
from tuner.records.none_ran import none_ran
from tuner.records.status import Absence
from tuner.results.expiry import expired
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store
from tuner.text import unbounded


class Document(BaseModel):
    """Base class of returned documents. ``model_validate`` converts records with equal fields."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


#: A configuration as a mapping.
Settings = Annotated[dict[str, Value], BeforeValidator(Configuration.as_dict)]


class TimeUseDocument(Document):
    """How the wall time of a campaign's runs was spent."""

    wall_s: float
    testbed_s: float
    apply_s: float
    workload_s: float


class CampaignDocument(Document):
    """A campaign.

    ``testbed``: kind or file named in its specification. ``answer``: null until there is one.
    ``none_ran``: whether the answer is that no configuration could be run, so that none was
    compared. ``trial``: the trial that the answer refers to; ``ratio``: its time relative to the
    baseline. ``expired``: why the certificate is no longer valid, "" if it is valid.
    ``verification``: which certificate this verified and how that ended, "" unless this is a
    verification. ``time_use``: null while the campaign runs, so that its ETag changes with the
    state and not with time.
    """

    id: str
    name: str
    state: CampaignState
    reason: str
    created: datetime
    updated: datetime
    seed: int
    testbed: str
    workload: str
    spaces: dict[str, str]
    answer: str | None
    none_ran: bool
    trial: int | None
    ratio: float | None
    expired: str
    verification: str
    time_use: TimeUseDocument | None

    @classmethod
    def of(cls, campaign: Campaign, store: Store) -> CampaignDocument:
        """Convert a campaign. ``store``: used to check whether its certificate has expired."""
        return cls.with_reason(campaign, expired(store, campaign))

    @classmethod
    def with_reason(cls, campaign: Campaign, reason: str) -> CampaignDocument:
        """Convert a campaign. ``reason``: why its certificate has expired, "" if it has not."""
        answer = campaign.recommendation
        names_of_campaign = names(campaign)
        return cls(
            id=campaign.id,
            name=campaign.name,
            state=campaign.state,
            reason=campaign.reason,
            created=campaign.created,
            updated=campaign.updated,
            seed=campaign.seed,
            testbed=names_of_campaign.testbed,
            workload=names_of_campaign.workload,
            spaces=dict(names_of_campaign.spaces),
            answer=None if answer is None else str(answer.answer),
            none_ran=answer is not None and none_ran(answer),
            trial=None if answer is None else answer.trial,
            ratio=None if answer is None else answer.ratio,
            expired=reason,
            verification="" if answer is None else answer.verification,
            time_use=None
            if campaign.state is CampaignState.RUNNING
            else TimeUseDocument.model_validate(campaign.time_use),
        )


class BranchDocument(CampaignDocument):
    """A campaign that was started as a branch of another.

    ``guiding_trials``: number of that campaign's trials that guide the search; ``unguided``: why
    none does, "" if one does.
    """

    guiding_trials: int
    unguided: str


class TrialDocument(Document):
    """A trial; number 0 is the baseline. ``flags``: command-line options by part."""

    number: int
    round: int
    origin: str
    state: TrialState
    reason: str
    configuration: Settings
    flags: dict[str, list[str]]


class BlockDocument(Document):
    """A block. ``order``: planned order of its arms, by trial; ``measured``: arms measured."""

    number: int
    kind: BlockKind
    round: int
    state: BlockState
    reason: str
    order: list[int]
    measured: list[int]
    duration_s: float

    @classmethod
    def of(cls, block: Block, measured: tuple[int, ...]) -> BlockDocument:
        """Convert a block."""
        return cls(
            number=block.number,
            kind=block.kind,
            round=block.round,
            state=block.state,
            reason=block.reason,
            order=list(block.order),
            measured=list(measured),
            duration_s=block.duration_s,
        )


class ComponentDocument(Document):
    """A timed workload component. Latencies are quantiles over its operations."""

    elapsed_s: float
    operations: int
    bytes: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None


Components = dict[str, ComponentDocument]


class MeasurementDocument(Document):
    """One workload run of one arm. ``clients``: results per client, if several ran concurrently."""

    block: int
    trial: int
    position: int
    started: datetime
    requested: dict[str, Value]
    effective: dict[str, Value]
    actions: list[str]
    apply_s: float
    workload_s: float
    components: Components
    clients: dict[str, Components]
    diagnostics: dict[str, float | str]

    @classmethod
    def of(cls, block: int, measurement: Measurement) -> MeasurementDocument:
        """Convert a measurement of a block."""
        m = measurement
        return cls(
            block=block,
            trial=m.trial,
            position=m.position,
            started=m.started,
            requested=m.requested.as_dict(),
            effective=m.effective.as_dict(),
            actions=list(m.actions),
            apply_s=m.apply_s,
            workload_s=m.workload_s,
            components=_components(m.components),
            clients={host: _components(of) for host, of in m.clients.items()},
            diagnostics={name: finite_or_text(v) for name, v in m.diagnostics.items()},
        )


def _components(results: Mapping[str, object]) -> Components:
    return {name: ComponentDocument.model_validate(of) for name, of in results.items()}


def finite_or_text(value: float | str) -> float | str:
    """The value itself, or text if it is a number that JSON cannot represent."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


class VerdictDocument(Document):
    """A trial compared with the baseline on blocks of one kind; valid however often it is checked.

    Evidence while a campaign runs, from all blocks of that kind so far: its numbers may differ from
    those of the recommendation. Rely on the recommendation, not on a verdict.
    """

    trial: int
    kind: BlockKind
    outcome: Outcome
    ratio: float | None
    lower_ratio: float | None
    upper_ratio: float | None
    blocks: int
    e_value: float | None
    threshold: float
    method: str
    reason: str

    @classmethod
    def of(cls, trial: int, kind: BlockKind, verdict: Verdict) -> VerdictDocument:
        """Convert a verdict."""
        return cls(
            trial=trial,
            kind=kind,
            outcome=verdict.outcome,
            ratio=ratio(verdict.estimate),
            lower_ratio=ratio(verdict.interval.lower),
            upper_ratio=ratio(verdict.interval.upper),
            blocks=verdict.n,
            e_value=verdict.e_value if math.isfinite(verdict.e_value) else None,
            threshold=verdict.threshold,
            method=verdict.method,
            reason=verdict.reason,
        )


def ratio(log_ratio: float) -> float | None:
    """Exponential of a log time ratio; None if it overflows or is infinite."""
    return math.exp(log_ratio) if -700.0 < log_ratio < 700.0 else None


_LONGEST_NESTED = 1000


def _scalar(value: object) -> str | int | float | bool | None:
    """The value if scalar, else JSON text: earlier releases imported event data unchecked."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value)[:_LONGEST_NESTED]


Scalar = Annotated[str | int | float | bool | None, BeforeValidator(_scalar)]


class EventDocument(Document):
    """An event. ``number`` is its ID in the event stream."""

    number: int
    at: datetime
    kind: str
    message: str
    data: dict[str, Scalar]


class PresenceDocument(Document):
    """Whether the process of a running campaign is alive.

    ``reason``: "" if it is, else a clause that describes its absence. ``queued``: a worker will
    resume the campaign. ``verifies``: it is a verification, which cannot be resumed.
    """

    reason: str
    queued: bool
    verifies: bool

    @classmethod
    def of(cls, absence: Absence | None) -> PresenceDocument:
        """Convert an absence; None if the process is alive."""
        if absence is None:
            return cls(reason="", queued=False, verifies=False)
        return cls(reason=absence.reason, queued=absence.queued, verifies=absence.verifies)


class DriftDocument(Document):
    """Baseline in one complete block: geometric-mean time relative to the mean over all blocks."""

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


class WhyDocument(Document):
    """Changes in the diagnostics between the baseline and a trial: one sentence for each large and
    certain change.
    """

    trial: int
    sentences: list[str]


class ShownDocument(Document):
    """Result of a configuration against the baseline: a word, and its time relative to the baseline
    with bounds. Missing bounds and values not known yet are null.
    """

    result: Word
    ratio: float | None
    lower_ratio: float | None
    upper_ratio: float | None

    @staticmethod
    def fields(result: ShownEffect) -> dict[str, Any]:
        """The fields for an effect."""
        e = result.estimate
        bounded = e is not None and not unbounded(e.lower, e.upper)
        return {
            "result": result.word,
            "ratio": None if e is None else e.ratio,
            "lower_ratio": e.lower if e is not None and bounded else None,
            "upper_ratio": e.upper if e is not None and bounded else None,
        }


class NamedDocument(ShownDocument):
    """A given configuration. ``blocks``: how many measured it; ``reason``: why it did not run, or
    why nothing is shown of it whatever its interval.
    """

    name: str
    trial: int
    changes: str
    blocks: int
    reason: str
    components: dict[str, ShownDocument]


class ComparisonDocument(Document):
    """Given configurations compared with the baseline.

    ``confidence``: of each interval. ``together``: simultaneous confidence of all whole-workload
    intervals. ``delta``: the smallest difference that matters.
    """

    confidence: float
    together: float
    delta: float
    configurations: list[NamedDocument]

    @classmethod
    def of(cls, comparison: NamedComparison) -> ComparisonDocument:
        """Convert a comparison."""
        return cls(
            confidence=comparison.confidence,
            together=comparison.together,
            delta=comparison.delta,
            configurations=[
                NamedDocument(
                    name=row.name,
                    trial=row.trial,
                    changes=row.changes,
                    blocks=row.blocks,
                    reason=row.reason,
                    components={
                        name: ShownDocument(**ShownDocument.fields(result))
                        for name, result in row.components.items()
                    },
                    **ShownDocument.fields(row.whole),
                )
                for row in comparison.rows
            ],
        )
