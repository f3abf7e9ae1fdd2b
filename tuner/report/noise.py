"""What each measure against noise brought, as a person reads it and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from tuner.judge.noise_records import NoiseMeasure, NoiseReport
from tuner.report.answer import columns, section
from tuner.report.drawing import paragraph

_WORDS: Mapping[NoiseMeasure, str] = {
    NoiseMeasure.RAW: "none",
    NoiseMeasure.PAIRED: "compared within blocks",
    NoiseMeasure.AGAIN: "disturbed arms measured again",
    NoiseMeasure.ADJUSTED: "adjusted for what others did",
}


def noise_sections(report: NoiseReport | None) -> list[RenderableType]:
    """The noise of a campaign, measure by measure; nothing where it is not known."""
    if report is None:
        return []
    table = columns(
        "Measure, on top of those above", "sd of a difference", "Variance", right=(1, 2)
    )
    for level in report.levels:
        word = _WORDS[level.measure]
        if level.measure is NoiseMeasure.AGAIN:
            word = f"{word} ({report.again} of {report.arms})"
        table.add_row(word, f"{100.0 * math.expm1(level.sd):.1f}%", f"{100.0 * level.share:.0f}%")
    sentence = f"{report.adjustment[:1].upper()}{report.adjustment[1:]}."
    return [section("Noise of the score", table, Text(""), paragraph(sentence))]


def noise_document(report: NoiseReport | None, components: tuple[str, ...]) -> object:
    """The same as JSON: variances of a difference of two runs, squared log units."""
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
