"""What the interface hands out, as documents: the stored records with the names they have there.

Times are in UTC, durations in seconds, ratios are times over the baseline's (below 1: faster).
What has no bound or is not known is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from tuner.campaign.drift import DriftPoint
from tuner.campaign.expiry import expired
from tuner.judge.verdict import Outcome, Verdict
from tuner.model import Block, BlockKind, Campaign, Configuration, Event, Measurement, Trial, Value
from tuner.page.names import names
from tuner.records.named_comparison import NamedComparison, ShownEffect, Word
from tuner.records.status import Absence
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store
from tuner.text import unbounded


class Document(BaseModel):
    """Something that is handed out."""

    model_config = ConfigDict(frozen=True)


class TimeUseDocument(Document):
    """Where the wall time of a campaign's runs went."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    wall_s: float
    testbed_s: float
    apply_s: float
    workload_s: float


class CampaignDocument(Document):
    """A campaign. ``answer``: null until it has one; ``testbed``: what kind or file it names.

    ``trial``: the one that the answer is about; ``ratio``: its time over the baseline's;
    ``expired``: why its certificate does not hold any more, "" where it does.
    ``time_use``: null while it runs, so that the tag changes with the state and not with time.
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
    trial: int | None
    ratio: float | None
    expired: str
    time_use: TimeUseDocument | None

    @classmethod
    def of(cls, campaign: Campaign, store: Store) -> CampaignDocument:
        """The document for a campaign. ``store``: knows what was found on its testbed later."""
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
            trial=None if answer is None else answer.trial,
            ratio=None if answer is None else answer.ratio,
            expired=expired(store, campaign),
            time_use=None
            if campaign.state is CampaignState.RUNNING
            else TimeUseDocument.model_validate(campaign.time_use),
        )


class TrialDocument(Document):
    """A trial. Number 0 is the baseline. ``flags``: its options by component."""

    number: int
    race: int
    origin: str
    state: TrialState
    reason: str
    configuration: dict[str, Value]
    flags: dict[str, list[str]]

    @classmethod
    def of(cls, trial: Trial) -> TrialDocument:
        """The document for a trial."""
        return cls(
            number=trial.number,
            race=trial.race,
            origin=trial.origin,
            state=trial.state,
            reason=trial.reason,
            configuration=trial.configuration.as_dict(),
            flags={name: list(words) for name, words in trial.flags.items()},
        )


class BlockDocument(Document):
    """A block. ``order``: its arms by trial, as planned; ``measured``: those that were."""

    number: int
    kind: BlockKind
    race: int
    state: BlockState
    reason: str
    order: list[int]
    measured: list[int]
    duration_s: float

    @classmethod
    def of(cls, block: Block, measured: tuple[int, ...]) -> BlockDocument:
        """The document for a block."""
        return cls(
            number=block.number,
            kind=block.kind,
            race=block.race,
            state=block.state,
            reason=block.reason,
            order=list(block.order),
            measured=list(measured),
            duration_s=block.duration_s,
        )


class ComponentDocument(Document):
    """A timed component. Latencies are quantiles over its operations."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    elapsed_s: float
    operations: int
    bytes: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None


Components = dict[str, ComponentDocument]


class MeasurementDocument(Document):
    """One run of the workload by one arm. ``clients``: of each, where several ran it at once."""

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
        """The document for a measurement of a block."""
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
    """A number as JSON can say it."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


class VerdictDocument(Document):
    """A trial against the baseline on blocks of one kind, valid however often it is looked at.

    It is evidence while a campaign runs; what may be relied on is the recommendation.
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
        """The document for a verdict."""
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
    """exp of a log time ratio; None where that has no bound."""
    return math.exp(log_ratio) if -700.0 < log_ratio < 700.0 else None


_LONGEST_NESTED = 1000


def _scalar(value: object) -> str | int | float | bool | None:
    """As it is, or as text: databases of earlier releases may hold what was imported unseen."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value)[:_LONGEST_NESTED]


class EventDocument(Document):
    """Something that happened. ``number`` is the identifier in the stream of events."""

    number: int
    at: datetime
    kind: str
    message: str
    data: dict[str, str | int | float | bool | None]

    @classmethod
    def of(cls, event: Event) -> EventDocument:
        """The document for an event."""
        return cls(
            number=event.number,
            at=event.at,
            kind=event.kind,
            message=event.message,
            data={name: _scalar(value) for name, value in event.data.items()},
        )


class PresenceDocument(Document):
    """Whether the process of a campaign that runs is heard from. ``said``: "", or that it is not;
    ``queued``: a worker takes the campaign up by itself.
    """

    said: str
    queued: bool

    @classmethod
    def of(cls, absence: Absence | None) -> PresenceDocument:
        """The document for why nobody is heard from."""
        if absence is None:
            return cls(said="", queued=False)
        return cls(said=absence.said, queued=absence.queued)


class DriftDocument(Document):
    """The baseline in one complete block: its geometric-mean time over its mean of all blocks."""

    block: int
    kind: BlockKind
    started: datetime
    ratio: float

    @classmethod
    def of(cls, point: DriftPoint) -> DriftDocument:
        """The document for one block."""
        return cls(block=point.block, kind=point.kind, started=point.started, ratio=point.ratio)


class WhyDocument(Document):
    """What changed with the settings of a trial against the baseline, of what was counted around
    the runs: a sentence for each large and certain change.
    """

    trial: int
    sentences: list[str]


class ShownDocument(Document):
    """What is shown of a configuration against the baseline: the word for it, and its time over
    the baseline's with bounds, null for what has none or is not known yet.
    """

    result: Word
    ratio: float | None
    lower_ratio: float | None
    upper_ratio: float | None

    @staticmethod
    def fields(result: ShownEffect) -> dict[str, Any]:
        """The fields for a record."""
        e = result.estimate
        bounded = e is not None and not unbounded(e.lower, e.upper)
        return {
            "result": result.word,
            "ratio": None if e is None else e.ratio,
            "lower_ratio": e.lower if e is not None and bounded else None,
            "upper_ratio": e.upper if e is not None and bounded else None,
        }


class NamedDocument(ShownDocument):
    """A given configuration. ``blocks``: that measured it; ``reason``: why it did not run."""

    name: str
    trial: int
    changes: str
    blocks: int
    reason: str
    components: dict[str, ShownDocument]


class ComparisonDocument(Document):
    """Given configurations against the baseline. ``confidence``: of each interval; ``together``:
    of all intervals of whole workloads at once; ``delta``: the smallest difference that matters.
    """

    confidence: float
    together: float
    delta: float
    configurations: list[NamedDocument]

    @classmethod
    def of(cls, comparison: NamedComparison) -> ComparisonDocument:
        """The document for a comparison."""
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


def values(configuration: Configuration | None) -> dict[str, Value]:
    """A configuration as a mapping."""
    return {} if configuration is None else configuration.as_dict()
