"""A recommendation as a JSON document, as one page of text and as command-line options.

Owns the schema of the document; the sentences are in `answer.py`. Percentages follow
tuner.judge.words: positive = faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from rich.console import Group, RenderableType
from rich.text import Text

from search_spaces import Space
from tuner.model import Answer, Campaign, Configuration, Recommendation, Value
from tuner.records.comparison import Comparison
from tuner.report.answer import claim, findings, flag_line, why_baseline
from tuner.report.applying import applying
from tuner.report.drawing import Printable, ToWidth
from tuner.report.references import comparison_sentence, references_section
from tuner.report.styles import QUIET, STRONG
from tuner.report.summary import so_far
from tuner.report.why import why_sections
from tuner.text import clean, percent_faster, unbounded

SCHEMA: Final = "fstune-recommendation/1"


class Part(BaseModel):
    """Base of documents for programs: frozen, and undeclared fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Effect(Part):
    """An effect against the baseline: ratios of times, and percent faster (negative = slower).

    ``lower_percent`` belongs to ``upper_ratio``. None: no bound, or not measured.
    """

    percent: float | None
    lower_percent: float | None
    upper_percent: float | None
    ratio: float | None
    lower_ratio: float | None
    upper_ratio: float | None


class Improvement(Effect):
    """The effect on the whole workload. ``largest_compatible_percent``: the largest gain, in
    percent, that is not ruled out for a trial measured in fresh blocks; others have no bound.
    """

    confidence: float
    largest_compatible_percent: float | None


class Component(Effect):
    """The effect on one component of the workload."""

    floor_held: bool


class Reference(Part):
    """The service's time divided by that of a path that is not tuned; None: not bounded yet.

    ``settings``: of the service. ``clients``: number of clients that ran its workload at once; one
    ran the reference's. ``cold``: whether the reference's cold reads were certain to be cold.
    """

    reference: str
    settings: str
    ratio: float
    lower_ratio: float | None
    upper_ratio: float | None
    blocks: int
    clients: int
    cold: bool
    text: str


class Options(Part):
    """The command-line options of one program: one by one, and as a line for a POSIX shell."""

    arguments: list[str]
    line: str


class RecommendationDocument(Part):
    """A recommendation for other programs. Values are by qualified name; a parameter that is not
    mentioned is left to the program. ``client``: the client for which it was measured. ``why``:
    a sentence for each large change in the diagnostics; None if they were not examined.
    ``settings``: the effect of each of several settings among the others, as the search model
    estimates it; 95% intervals.
    """

    schema_: Literal["fstune-recommendation/1"] = Field(default=SCHEMA, alias="schema")
    campaign: str
    campaign_name: str
    answer: Answer
    claim: str
    reason: str
    client: str
    trial: int
    configuration: dict[str, Value]
    baseline: dict[str, Value]
    flags: dict[str, Options]
    baseline_flags: dict[str, Options]
    improvement: Improvement
    components: dict[str, Component]
    blocks: int
    e_value: float | None
    threshold: float | None
    notes: list[str]
    references: list[Reference]
    why: list[str] | None = None
    settings: dict[str, Effect] = Field(default_factory=dict)

    def json_text(self) -> str:
        """The document as JSON, ending with a newline."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def recommendation_document(
    campaign: Campaign,
    recommendation: Recommendation,
    *,
    client: str = "",
    references: Sequence[Comparison] = (),
    why: Sequence[str] | None = None,
) -> RecommendationDocument:
    """Build the document for a recommendation; unbounded numbers become None."""
    r = recommendation
    largest = r.largest_compatible_improvement
    return RecommendationDocument(
        campaign=campaign.id,
        campaign_name=campaign.name,
        answer=r.answer,
        claim=claim(r),
        reason=r.reason,
        client=client,
        trial=r.trial,
        configuration=_values(r.configuration),
        baseline=_values(r.baseline),
        flags=_options(r.flags),
        baseline_flags=_options(r.baseline_flags),
        improvement=Improvement(
            **effect(r.ratio, r.lower, r.upper),
            confidence=r.confidence,
            largest_compatible_percent=None if largest is None else _rounded(100.0 * largest),
        ),
        components={
            name: Component(**effect(e.ratio, e.lower, e.upper), floor_held=e.floor_held)
            for name, e in r.components.items()
        },
        blocks=r.blocks,
        e_value=_finite(r.e_value),
        threshold=_finite(r.threshold),
        notes=list(r.notes),
        references=[_reference(comparison) for comparison in references],
        why=None if why is None else list(why),
        settings={name: Effect(**effect(*of)) for name, of in r.settings.items()},
    )


def _reference(comparison: Comparison) -> Reference:
    c, e = comparison, comparison.estimate
    bounded = not unbounded(e.lower, e.upper)
    return Reference(
        reference=c.reference,
        settings=c.settings,
        ratio=e.ratio,
        lower_ratio=e.lower if bounded else None,
        upper_ratio=e.upper if bounded else None,
        blocks=c.blocks,
        clients=c.clients,
        cold=c.cold,
        text=comparison_sentence(c),
    )


def _values(configuration: Configuration) -> dict[str, Value]:
    return configuration.as_dict()


def _options(flags: Mapping[str, tuple[str, ...]]) -> dict[str, Options]:
    return {c: Options(arguments=list(a), line=flag_line(a)) for c, a in flags.items()}


def effect(
    ratio: float | None, lower: float | None, upper: float | None
) -> dict[str, float | None]:
    """Return the fields of an ``Effect`` from ratios of times; unbounded numbers become None."""
    return {
        "percent": _percent(ratio),
        "lower_percent": _percent(upper),
        "upper_percent": _percent(lower),
        "ratio": _finite(ratio),
        "lower_ratio": _finite(lower),
        "upper_ratio": _finite(upper),
    }


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else _rounded(percent_faster(ratio))


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _rounded(percent: float) -> float | None:
    return round(percent, 3) if math.isfinite(percent) else None


def recommendation_page(
    campaign: Campaign,
    recommendation: Recommendation,
    *,
    client: str = "",
    references: Sequence[Comparison] = (),
    spaces: Mapping[str, Space] | None = None,
    why: Sequence[str] = (),
    verbose: bool = False,
) -> RenderableType:
    """Render the recommendation for people.

    ``spaces``: search spaces of the tuned programs, by component; ``why``: a sentence for each
    large change in the diagnostics.
    """
    about = f"  campaign {clean(campaign.id)}" + (f", for {clean(client)}" if client else "")
    title = Text.assemble((clean(campaign.name), STRONG), (about, QUIET))
    sections = findings(
        recommendation, advice=applying(recommendation, spaces or {}), verbose=verbose
    )
    changes = why_sections(recommendation, why)
    notes = (*changes, *so_far(campaign), *references_section(references))
    whole = Group(title, "", sections, *notes)
    return Printable(ToWidth(lambda _: whole))


def recommendation_flags(recommendation: Recommendation) -> str:
    """Return the options to set, quoted for a POSIX shell.

    For each component a comment line with its name, then a line with its options. Without an
    improvement, the options already in effect, preceded by a comment that says so.
    """
    r = recommendation
    flags, lines = r.flags, []
    if r.answer is Answer.NO_IMPROVEMENT:
        flags = r.baseline_flags
        lines.append(f"# {clean(why_baseline(r))}")
    for component, arguments in flags.items():
        lines.append(f"# {clean(component)}" + ("" if arguments else ": no options"))
        if arguments:
            lines.append(flag_line(arguments))
    return "".join(f"{line}\n" for line in lines)
