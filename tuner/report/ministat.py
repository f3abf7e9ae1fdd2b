"""Compare samples as the classic ministat does, in its output format.

Owns that layout, down to the last blank. Each later sample is compared with the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.judge import ministat
from tuner.judge.holm import holm
from tuner.report.compare import Sample
from tuner.report.plots import SYMBOLS, classic_plot
from tuner.text import clean, counted


@dataclass(frozen=True, slots=True)
class Classic:
    """The classic tool's results; p_values: Holm-adjusted, one per comparison, or empty."""

    samples: tuple[Sample, ...]
    summaries: tuple[ministat.Summary, ...]
    differences: tuple[ministat.Difference, ...]
    p_values: tuple[float, ...]


def classic(
    samples: Sequence[Sample], *, confidence: float, edition: ministat.Edition, corrected: bool
) -> Classic:
    """Compute the classic figures. Raises ValueError as tuner.judge.ministat does."""
    summaries = tuple(ministat.summarise(sample.values, edition) for sample in samples)
    reference, others = summaries[0], summaries[1:]
    differences = tuple(
        ministat.difference(reference, other, confidence=confidence, edition=edition)
        for other in others
    )
    adjusted = holm([ministat.pooled_p_value(reference, other) for other in others])
    return Classic(
        tuple(samples), summaries, differences, tuple(adjusted.tolist()) if corrected else ()
    )


def classic_text(result: Classic, *, plot: bool, width: int, separate: bool) -> str:
    """Return the classic output: legend, plot, table, and each later sample's difference.

    width: of the plot (cells). Raises ValueError for more samples than the plot has symbols.
    """
    lines = [
        f"{symbol} {clean(sample.label)}"
        for symbol, sample in zip(SYMBOLS, result.samples, strict=False)
    ]
    if plot:
        values = [sample.values for sample in result.samples]
        lines += classic_plot(values, result.summaries, width=width, separate=separate)
    lines.append(
        f"    N{'Min':>14}{'Max':>14}{'Median':>14}{'Avg':>14}{'Stddev':>14}",
    )
    for index, (symbol, s) in enumerate(zip(SYMBOLS, result.summaries, strict=False)):
        figures = (s.minimum, s.maximum, s.median, s.mean, s.sd)
        lines.append(f"{symbol} {s.n:3d} " + " ".join(f"{x:13.8g}" for x in figures))
        if index > 0:
            lines += _difference_block(result, index - 1)
    return "\n".join(lines) + "\n"


def _difference_block(result: Classic, index: int) -> list[str]:
    d = result.differences[index]
    lines = [f"No difference proven at {d.confidence:.1f}% confidence"]
    if d.proven:
        lines = [
            f"Difference at {d.confidence:.1f}% confidence",
            f"\t{d.difference:g} +/- {d.interval:g}",
            f"\t{d.percent:g}% +/- {d.percent_interval:g}%",
            f"\t(Student's t, pooled s = {d.pooled_sd:g})",
        ]
    if result.p_values:
        p = result.p_values[index]
        stands = "proven" if p <= 1.0 - d.confidence / 100.0 else "not proven"
        number = counted(len(result.p_values), "comparison")
        lines.append(f"\t(Holm, {number}: p = {p:.4g}, {stands})")
    return lines
