"""Compare samples of numbers with the first one and render the result for people.

Owns the wording. "x% lower" is 1 - ratio and "x% higher" is ratio - 1 of the geometric means;
a file of numbers does not say whether lower is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Final

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tuner.judge.two_sample import (
    MIN_VALUES,
    Claim,
    Comparison,
    Direction,
    claims,
    compare_paired,
    compare_samples,
)
from tuner.report.drawing import Printable, ToWidth, paragraph
from tuner.report.listing import Column, Listing
from tuner.report.plots import DotPlot
from tuner.report.styles import QUIET, STRONG, literal
from tuner.text import clean, counted

_WIDEST_LABEL: Final = 24
_NARROWEST_PLOT: Final = 20
#: What the values of stored trials are; files of numbers have no unit.
_OF_TRIALS: Final = "values of a trial: seconds per block, the mean time of its components"

Block = tuple[str, int]
"""A campaign and the number of a block in it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Labelled values.

    blocks: the block in which each value was measured; None if unknown. among: number of trials
    measured in the campaign, from which this one may have been selected.
    """

    label: str
    values: tuple[float, ...]
    blocks: tuple[Block, ...] | None = None
    among: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    """Samples, each later one compared with the first, and the claims at `confidence_percent`.

    corrected: whether the claims are Holm-corrected for the number of comparisons.
    """

    samples: tuple[Sample, ...]
    comparisons: tuple[Comparison, ...]
    claims: tuple[Claim, ...]
    confidence_percent: float
    corrected: bool


def compare(samples: Sequence[Sample], *, confidence: float, corrected: bool) -> Compared:
    """Compare each later sample with the first, paired by block if they share at least 3 blocks.

    confidence: percent. Raises ValueError as tuner.judge.two_sample does.
    """
    alpha = 1.0 - confidence / 100.0
    reference = samples[0]
    comparisons = []
    for other in samples[1:]:
        pairs = _common(reference, other)
        if len(pairs) >= MIN_VALUES:
            logs = np.log(np.array(pairs))
            comparisons.append(compare_paired(logs[:, 1] - logs[:, 0], alpha=alpha))
        else:
            comparisons.append(compare_samples(reference.values, other.values, alpha=alpha))
    return Compared(
        tuple(samples),
        tuple(comparisons),
        claims(comparisons, alpha=alpha, correct=corrected),
        confidence,
        corrected,
    )


def _common(reference: Sample, other: Sample) -> list[tuple[float, float]]:
    """Return the pairs of values measured in the same blocks, in the reference's order."""
    if reference.blocks is None or other.blocks is None:
        return []
    mine = dict(zip(other.blocks, other.values, strict=True))
    both = zip(reference.blocks, reference.values, strict=True)
    return [(value, mine[block]) for block, value in both if block in mine]


def compare_page(compared: Compared, *, plot: bool) -> RenderableType:
    """Render the comparison: a table of the samples, a plot, and a paragraph per comparison."""
    parts: list[RenderableType] = [_table(compared.samples)]
    if any(sample.blocks is not None for sample in compared.samples):
        parts.append(paragraph(_OF_TRIALS, QUIET))
    if plot:
        parts += ["", ToWidth(lambda width: _plot(compared.samples, width))]
    pairs = zip(compared.samples[1:], compared.comparisons, compared.claims, strict=True)
    for sample, comparison, claim in pairs:
        sentences = sentence(compared, sample, comparison, claim)
        parts += ["", paragraph(sentences, STRONG)]
        evidence = paragraph(_evidence(compared, comparison, claim), QUIET)
        parts.append(Padding(evidence, (0, 0, 0, 2), expand=False))
    return Printable(Group(*parts))


def sentence(compared: Compared, sample: Sample, comparison: Comparison, claim: Claim) -> str:
    """State the claim with the estimate and its interval."""
    reference, name = (clean(s.label) for s in (compared.samples[0], sample))
    effect, interval = _change(comparison, comparison.estimate), _interval(compared, comparison)
    if claim.direction is Direction.NOT_SHOWN:
        return f"{name}: no difference from {reference} shown; estimate {effect} {interval}"
    return f"{name} is {effect} than {reference} {interval}"


def _change(comparison: Comparison, d: float) -> str:
    word = "lower" if d < 0.0 else "higher"
    if not comparison.relative:
        return f"{abs(d):.4g} {word}"
    return f"{abs(percent_higher(d)):.1f}% {word}"


def percent_higher(d: float) -> float:
    """Convert a log difference to a percentage of the reference; infinite on overflow."""
    return 100.0 * math.expm1(d) if d < 700.0 else math.inf


def _interval(compared: Compared, comparison: Comparison) -> str:
    low, high = comparison.interval.lower, comparison.interval.upper
    name = f"{compared.confidence_percent:g}% interval"
    if math.isinf(low) or math.isinf(high):
        return f"({name} unbounded)"
    if low * high <= 0.0:
        return f"({name} {_change(comparison, low)} to {_change(comparison, high)})"
    near, far = (low, high) if low > 0.0 else (high, low)
    unit = "%" if comparison.relative else ""
    start = _change(comparison, near).rpartition(f"{unit} ")[0]
    return f"({name} {start} to {_change(comparison, far)})"


def _evidence(compared: Compared, comparison: Comparison, claim: Claim) -> str:
    parts = [f"{comparison.method}: p = {comparison.p_value:.2g}"]
    if comparison.p_robust is not None:
        parts.append(f"{comparison.robust_method}: p = {comparison.p_robust:.2g}")
    if compared.corrected:
        number = counted(len(compared.claims), "comparison")
        parts.append(f"Holm for {number}: p = {claim.p_value:.2g}")
    text = "; ".join(parts)
    if comparison.paired:
        text += f". Paired by {counted(comparison.n, 'block')}, valid under repeated looks"
        if (among := max(sample.among for sample in compared.samples)) > 1:
            text += (
                f"; these blocks favor a trial selected by them from {among}, fresh blocks do not"
            )
    if not claim.agree:
        text += ". The two tests disagree: a claim needs both"
    elif not claim.robust and comparison.p_robust is not None:
        text += f". Too few values for the {comparison.robust_method} to count"
    return text


def _table(samples: Sequence[Sample]) -> RenderableType:
    numbers = ("n", "mean", "median", "sd", "min", "max")
    columns = (Column("sample"), *(Column(name, rigid=True, right=True) for name in numbers))
    return Listing(columns, tuple(map(_row, samples)))


def _row(sample: Sample) -> tuple[Text, ...]:
    v = sample.values
    figures = (fmean(v), median(v), stdev(v), min(v), max(v))
    return (literal(sample.label), Text(str(len(v))), *(Text(f"{x:.5g}") for x in figures))


def _plot(samples: Sequence[Sample], width: int) -> RenderableType:
    labels = [clean(sample.label) for sample in samples]
    gutter = min(_WIDEST_LABEL, max(cell_len(label) for label in labels))
    cells = max(_NARROWEST_PLOT, width - gutter - 2)
    plot = DotPlot.of([sample.values for sample in samples], width=cells)
    rows = []
    for label, lines in zip(labels, plot.lines, strict=True):
        if cell_len(label) > gutter:
            label = "…" + label[-(gutter - 1) :]
        rows += [" " * (gutter + 2) + line for line in lines[:-1]]
        rows += [f"{set_cell_size(label, gutter)}  {lines[-1]}", ""]
    low, high = f"{plot.low:.5g}", f"{plot.high:.5g}"
    axis = low + " " * max(1, cells - len(low) - len(high)) + high
    rows.append(" " * (gutter + 2) + axis)
    if plot.per_dot > 1:
        rows.append(" " * (gutter + 2) + f"● up to {plot.per_dot} values")
    whole = "\n".join(row.rstrip() for row in rows)
    return Text(whole, no_wrap=True, overflow="ignore")
