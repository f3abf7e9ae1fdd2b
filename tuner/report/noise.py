"""Report how much each noise-reduction measure helped, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from tuner.judge.noise_records import NoiseMeasure, NoiseReport
from tuner.report.answer import columns, section
from tuner.report.drawing import paragraph

#: Column headings of the table.
HEADINGS = ("Measure, on top of those above", "sd of a difference", "Variance")

_WORDS: Mapping[NoiseMeasure, str] = {
    NoiseMeasure.RAW: "none",
    NoiseMeasure.PAIRED: "compared within blocks",
    NoiseMeasure.AGAIN: "disturbed arms measured again",
    NoiseMeasure.ADJUSTED: "adjusted for other load",
}


def noise_sections(report: NoiseReport | None) -> list[RenderableType]:
    """Render a campaign's noise, measure by measure; no sections if it is unknown."""
    if report is None:
        return []
    table = columns(*HEADINGS, right=(1, 2))
    for level in report.levels:
        values = (level.measure, level.score, level.share)
        table.add_row(*noise_row(*values, again=report.again, arms=report.arms))
    return [section("Noise of the score", table, Text(""), paragraph(adjusted(report.adjustment)))]


def noise_row(
    measure: NoiseMeasure, variance: float, share: float, *, again: int, arms: int
) -> tuple[str, str, str]:
    """Return one row: the measure, the standard deviation of a difference, and the variance left.

    The variance left is relative to that without any measure.
    """
    word = _WORDS[measure]
    if measure is NoiseMeasure.AGAIN:
        word = f"{word} ({again} of {arms})"
    return word, f"{100.0 * math.expm1(math.sqrt(variance)):.1f}%", f"{100.0 * share:.0f}%"


def adjusted(adjustment: str) -> str:
    """Return the outcome of the adjustment as a separate sentence."""
    return f"{adjustment[:1].upper()}{adjustment[1:]}."


def noise_document(report: NoiseReport | None, components: tuple[str, ...]) -> object:
    """Return the noise as a JSON document: variances of a difference of two runs (log units²)."""
    if report is None:
        return None
    return {
        "arms": report.arms,
        "freedom": report.freedom,
        "again": report.again,
        "adjustment": report.adjustment,
        "levels": [
            {
                "measure": level.measure,
                "variance": level.score,
                "share": level.share,
                "components": dict(zip(components, level.components, strict=True)),
            }
            for level in report.levels
        ],
    }
