"""A campaign's report as one document, the common content of its HTML, Markdown and JSON forms.

Owns the document's schema. Its percentages follow tuner.judge.words: positive = faster.
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
from tuner.report.recommendation_document import Effect, Part, RecommendationDocument
from tuner.states import CampaignState

SCHEMA: Final = "fstune-report/1"


class Fact(Part):
    """A fact about how or where the campaign was measured: a label and its value."""

    what: str
    text: str


class SettingChange(Part):
    """A setting that differs from the baseline, as text. ``gain``: its effect among the others;
    "" if the effect of none is known.
    """

    name: str
    before: str
    after: str
    gain: str = ""


class TrialVerdict(Effect):
    """A trial compared with the baseline on all blocks of one kind so far; valid under repeated
    looks. Its numbers may differ from those of the recommendation.

    ``changes``: the settings that differ from the baseline. ``ended``: why it is in its state.
    """

    trial: int
    kind: BlockKind
    outcome: Outcome
    blocks: int
    changes: str
    state: str
    ended: str


class Drift(Part):
    """The baseline in one block; ratio: its time divided by its mean over all blocks."""

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


class Disturbance(Part):
    """A disturbance of the measurements, as an event of the campaign reports it."""

    at: datetime
    kind: str
    message: str


class Counter(Part):
    """One number of the diagnostics: the medians over the baseline's and the trial's runs."""

    what: str
    baseline: str
    trial: str


class NoiseLevel(Part):
    """The noise with all measures up to this one: variances of a difference of two runs (log²).

    ``share``: what is left of the score's variance without any measure, as a fraction.
    """

    measure: NoiseMeasure
    variance: float
    share: float
    components: dict[str, float]


class Noise(Part):
    """How much each noise-reduction measure helped.

    ``arms``: number of arms behind the figures; ``freedom``: degrees of freedom; ``again``: number
    of arms that were measured again; ``adjustment``: a sentence on its outcome.
    """

    arms: int
    freedom: int
    again: int
    adjustment: str
    levels: list[NoiseLevel]

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of its table as text."""
        return [
            noise_row(one.measure, one.variance, one.share, again=self.again, arms=self.arms)
            for one in self.levels
        ]


class Applying(Part):
    """How to apply the settings of one program. ``undo``: its original options, "" for none."""

    part: str
    put: str
    then: str
    options: str
    undo: str


class Compared(Part):
    """Named configurations compared with the baseline, as tables of text: headings and rows."""

    headings: list[str]
    rows: list[list[str]]
    component_headings: list[str]
    components: list[list[str]]
    claim: list[str]


def compared(comparison: NamedComparison) -> Compared:
    """Convert a comparison to tables of text."""
    return Compared(
        headings=list(named_comparison.headings(comparison)),
        rows=[list(row) for row in named_comparison.rows(comparison)],
        component_headings=list(named_comparison.component_headings(comparison)),
        components=[list(row) for row in named_comparison.component_rows(comparison)],
        claim=list(named_comparison.claim(comparison)),
    )


class ReportDocument(Part):
    """A campaign's report, for readers who were not involved.

    ``as_of``: when the campaign last changed. ``sure``: sentences on the confidence in the answer.
    ``trial``: the trial that settings, components and counters describe: the recommended one,
    otherwise the incumbent. ``why``: a sentence for each large change in the diagnostics.
    ``equal``: number of settings equal to the baseline's. ``unmeasured``: number of trials that no
    complete block has measured. ``compared``: only for campaigns that compare named configurations.
    ``noise``: None if too little was repeated to tell. ``campaign_file``: YAML, in which paths are
    reduced to file names.
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
