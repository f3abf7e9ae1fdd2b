"""Compared samples as a JSON document for other programs.

Owns the document's schema. Percentages compare geometric means; positive = higher than the
reference.
"""

from __future__ import annotations

import math
from statistics import fmean, median, stdev
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.judge.two_sample import Direction
from tuner.report.compare import Compared, Sample, percent_higher
from tuner.report.ministat import Classic

SCHEMA: Final = "fstune-compare/1"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class SampleDocument(_Part):
    """One sample; geometric_mean: None unless every value is above 0."""

    label: str
    n: int
    mean: float
    median: float
    sd: float
    minimum: float
    maximum: float
    geometric_mean: float | None


class ClassicDocument(_Part):
    """The figures of the classic ministat; p_value: Holm-adjusted, None if not requested."""

    proven: bool
    difference: float
    interval: float
    percent: float | None
    percent_interval: float | None
    pooled_sd: float
    p_value: float | None


class ComparisonDocument(_Part):
    """One sample against the reference.

    ``percent`` (of geometric means) or ``difference`` (of means), whichever was tested, with its
    interval; positive = higher; None: no bound, or not tested. ``claim_p_value``: the p-value that
    decides the direction, Holm-adjusted if ``corrected``.
    """

    label: str
    direction: Direction
    paired: bool
    n: int
    percent: float | None
    lower_percent: float | None
    upper_percent: float | None
    difference: float | None
    lower: float | None
    upper: float | None
    method: str
    p_value: float
    robust_method: str | None
    robust_p_value: float | None
    claim_p_value: float
    tests_agree: bool
    ministat: ClassicDocument | None


class CompareDocument(_Part):
    """A comparison as a document for other programs."""

    schema_: Literal["fstune-compare/1"] = Field(default=SCHEMA, alias="schema")
    confidence: float
    corrected: bool
    samples: list[SampleDocument]
    comparisons: list[ComparisonDocument]

    def json_text(self) -> str:
        """The document as JSON, ending with a newline."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def compare_document(compared: Compared, result: Classic | None) -> CompareDocument:
    """Build the document; `result`: classic figures to include."""
    return CompareDocument(
        confidence=compared.confidence_percent,
        corrected=compared.corrected,
        samples=[_sample_document(sample) for sample in compared.samples],
        comparisons=[
            _comparison_document(compared, result, index)
            for index in range(len(compared.comparisons))
        ],
    )


def _sample_document(sample: Sample) -> SampleDocument:
    v = sample.values
    return SampleDocument(
        label=sample.label,
        n=len(v),
        mean=fmean(v),
        median=median(v),
        sd=stdev(v),
        minimum=min(v),
        maximum=max(v),
        geometric_mean=math.exp(fmean(map(math.log, v))) if min(v) > 0.0 else None,
    )


def _comparison_document(
    compared: Compared, result: Classic | None, index: int
) -> ComparisonDocument:
    c, claim = compared.comparisons[index], compared.claims[index]
    bounds = (c.estimate, c.interval.lower, c.interval.upper)
    percents = [_finite(percent_higher(d)) if math.isfinite(d) else None for d in bounds]
    units = [_finite(d) for d in bounds]
    nothing = [None, None, None]
    percent, lower_percent, upper_percent = percents if c.relative else nothing
    difference, lower, upper = nothing if c.relative else units
    return ComparisonDocument(
        label=compared.samples[index + 1].label,
        direction=claim.direction,
        paired=c.paired,
        n=c.n,
        percent=percent,
        lower_percent=lower_percent,
        upper_percent=upper_percent,
        difference=difference,
        lower=lower,
        upper=upper,
        method=c.method,
        p_value=c.p_value,
        robust_method=c.robust_method,
        robust_p_value=c.p_robust,
        claim_p_value=claim.p_value,
        tests_agree=claim.agree,
        ministat=None if result is None else _classic_document(result, index),
    )


def _classic_document(result: Classic, index: int) -> ClassicDocument:
    d = result.differences[index]
    return ClassicDocument(
        proven=d.proven,
        difference=d.difference,
        interval=d.interval,
        percent=_finite(d.percent),
        percent_interval=_finite(d.percent_interval),
        pooled_sd=d.pooled_sd,
        p_value=result.p_values[index] if result.p_values else None,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
