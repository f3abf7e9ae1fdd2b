"""A campaign's report as one document: what its HTML, its Markdown and its JSON all tell.

Owns the document's schema. Percentages in it follow tuner.judge.words: positive = faster.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from tuner.judge.noise_records import NoiseMeasure
from tuner.judge.verdict import Outcome
from tuner.model import BlockKind
from tuner.records.named_comparison import NamedComparison
from tuner.report import named_comparison
from tuner.report.noise import noise_row
from tuner.report.parameter_effects import EffectsDocument
from tuner.report.recommend import Effect, Part, RecommendationDocument
from tuner.states import CampaignState

SCHEMA: Final = "fstune-report/1"


class Fact(Part):
    """Something that was measured with, or on: what it is, and which."""

    what: str
    text: str


class SettingChange(Part):
    """A setting that differs from the baseline, as a person reads it."""

    name: str
    before: str
    after: str


class TrialVerdict(Effect):
    """A trial against the baseline on the blocks of one kind, valid however often it is looked at.

    ``changes``: its settings as a difference to the baseline. ``ended``: why it is in its state.
    """

    trial: int
    kind: BlockKind
    outcome: Outcome
    blocks: int
    changes: str
    state: str
    ended: str


class Drift(Part):
    """The baseline in one block: its time over its own mean of all."""

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


class Disturbance(Part):
    """Something that went against the measurements, in the campaign's own words."""

    at: datetime
    kind: str
    message: str


class Counter(Part):
    """What was counted around the runs: a median of the baseline's, and one of the trial's."""

    what: str
    baseline: str
    trial: str


class NoiseLevel(Part):
    """The noise with the measures up to this one: variances of a difference of two runs, squared
    log units. ``share``: of the score's variance without any measure.
    """

    measure: NoiseMeasure
    variance: float
    share: float
    components: dict[str, float]


class Noise(Part):
    """What each measure against noise brought. ``arms``: behind it; ``freedom``: degrees of
    freedom; ``again``: arms that were measured again; ``adjustment``: what came of it, a sentence.
    """

    arms: int
    freedom: int
    again: int
    adjustment: str
    levels: list[NoiseLevel]

    def rows(self) -> list[tuple[str, str, str]]:
        """The rows of its table, as a person reads them."""
        return [
            noise_row(one.measure, one.variance, one.share, again=self.again, arms=self.arms)
            for one in self.levels
        ]


class Applying(Part):
    """How one program gets the settings. ``undo``: its options as found; "" is none."""

    component: str
    put: str
    then: str
    options: str
    undo: str


class Compared(Part):
    """Given configurations against the baseline, as tables of text: their headings, and rows."""

    headings: list[str]
    rows: list[list[str]]
    component_headings: list[str]
    components: list[list[str]]
    claim: list[str]


def compared(comparison: NamedComparison) -> Compared:
    """A comparison as tables."""
    return Compared(
        headings=list(named_comparison.headings(comparison)),
        rows=[list(row) for row in named_comparison.rows(comparison)],
        component_headings=list(named_comparison.component_headings(comparison)),
        components=[list(row) for row in named_comparison.component_rows(comparison)],
        claim=list(named_comparison.claim(comparison)),
    )


class ReportDocument(Part):
    """A campaign, to be handed to somebody who was not there.

    ``as_of``: when it last changed. ``sure``: sentences on how sure the answer is. ``trial``: the
    one that settings, components and counters are about: the recommended one, else the incumbent.
    ``why``: a sentence for each large change of what was counted.
    ``equal``: so many settings are as in the baseline. ``unmeasured``: trials that no complete
    block has measured. ``compared``: of a campaign that compares. ``noise``: None where too
    little was repeated to tell. ``campaign_file``: YAML, files in it by their names alone.
    """

    schema_: Literal["fstune-report/1"] = Field(default=SCHEMA, alias="schema")
    fstune: str
    campaign: str
    campaign_name: str
    state: CampaignState
    as_of: datetime
    question: str
    answer: str
    reason: str
    sure: list[str]
    recommendation: RecommendationDocument | None
    trial: int
    measured: list[Fact]
    settings: list[SettingChange]
    equal: int
    meanings: list[str]
    components: dict[str, Effect]
    verdicts: list[TrialVerdict]
    unmeasured: int
    drift: list[Drift]
    disturbances: list[Disturbance]
    counters: list[Counter]
    why: list[str]
    effects: EffectsDocument
    threats: list[str]
    applying: list[Applying]
    campaign_file: str
    commands: list[str]
    compared: Compared | None = None
    noise: Noise | None = None

    def json_text(self) -> str:
        """The document as JSON, ending with a newline."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"
