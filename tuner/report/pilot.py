"""What a pilot found, on one page: the noise, and what a campaign can hope for."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.judge.pilot import ComponentNoise, Pilot, PilotOutcome
from tuner.judge.words import blocks, percent
from tuner.report.drawing import paragraph
from tuner.report.findings import columns, section
from tuner.report.words import STRONG, duration

_HEADLINES = {
    PilotOutcome.SOUND: "The testbed is sound: the baseline equals itself",
    PilotOutcome.REFUSED: "The pilot advises against a campaign",
    PilotOutcome.UNDECIDED: "The pilot is not over",
}


def pilot_page(pilot: Pilot) -> RenderableType:
    """The findings of a pilot."""
    look = pilot.outlook
    parts: list[RenderableType] = [Text(_HEADLINES[pilot.outcome], style=STRONG)]
    parts.append(paragraph(pilot.verdict.reason))
    if pilot.refusals:
        parts.append(section("Against it", *map(paragraph, pilot.refusals)))
    table = columns("Component", "CV", "Within a block", "sd of a pair", right=(1, 2, 3))
    for noise in (pilot.noise, *pilot.components):
        table.add_row(*_cells(noise))
    parts.append(section("Noise", table))
    parts.append(section("Warm-up", paragraph(pilot.warm_up.reason)))
    parts.append(section("Guards", *(paragraph(guard.reason) for guard in pilot.guards)))
    smallest = "none" if math.isinf(look.detectable) else percent(math.log1p(look.detectable))
    parts.append(
        section(
            "Outlook",
            paragraph(
                f"a run takes {duration(look.run_s)}; the budget holds "
                f"{blocks(look.search_blocks)} of search and {blocks(look.certify_blocks)} of "
                "certification"
            ),
            paragraph(f"smallest improvement certified with 80 % power: {smallest}"),
            paragraph(look.reason),
        )
    )
    if pilot.warnings:
        parts.append(section("Warnings", *map(paragraph, pilot.warnings)))
    return Group(*parts)


def _cells(noise: ComponentNoise) -> tuple[str, str, str, str]:
    shares = (noise.cv, noise.cv_within, math.expm1(min(noise.sd_difference, 700.0)))
    return (noise.name, *(f"{100.0 * share:.1f} %" for share in shares))  # type: ignore[return-value]
