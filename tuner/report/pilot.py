"""One-page result of a pilot: the noise, and the effects that a campaign can detect."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.judge.auto_floor import ENOUGH
from tuner.judge.pilot import ComponentNoise, Outlook, Pilot, PilotOutcome
from tuner.judge.words import blocks, percent
from tuner.report.answer import columns, section
from tuner.report.drawing import paragraph
from tuner.report.styles import STRONG
from tuner.text import duration

#: Statistical power from which an effect counts as detectable.
_ENOUGH_POWER = 0.8

_HEADLINES = {
    PilotOutcome.SOUND: "The testbed is sound: the baseline equals its twin",
    PilotOutcome.REFUSED: "The pilot advises against a campaign",
    PilotOutcome.UNDECIDED: "The pilot has not finished",
}


def pilot_page(pilot: Pilot) -> RenderableType:
    """Render the findings of a pilot."""
    look = pilot.outlook
    smallest = "none" if math.isinf(look.detectable) else percent(math.log1p(look.detectable))
    parts: list[RenderableType] = [Text(_headline(pilot, smallest), style=STRONG)]
    if pilot.refusals:
        parts.append(section("Reasons against it", *map(paragraph, pilot.refusals)))
    if look.certify_blocks and not math.isinf(look.detectable):
        parts.append(section("What can be shown", *map(paragraph, _detectable(pilot, smallest))))
    parts.append(section("Baseline against its twin", paragraph(pilot.verdict.reason)))
    table = columns("Component", "CV", "Within a block", "sd of a pair", right=(1, 2, 3))
    for noise in (pilot.noise, *pilot.components):
        table.add_row(*_cells(noise))
    parts.append(section("Noise", table))
    parts.append(section("Warm-up", paragraph(pilot.warm_up.reason)))
    parts.append(section("Guards", *(paragraph(guard.reason) for guard in pilot.guards)))
    parts.append(
        section(
            "Outlook",
            paragraph(f"a run takes {duration(look.run_s)}; the budget allows {_room(look)}"),
            paragraph(look.reason),
        )
    )
    if pilot.warnings:
        parts.append(section("Warnings", *map(paragraph, pilot.warnings)))
    return Group(*parts)


def _room(look: Outlook) -> str:
    """Say how many blocks the budget allows; a comparison searches nothing."""
    certify = f"{blocks(look.certify_blocks)} of certification"
    if look.search_blocks is None:
        return certify
    return f"{blocks(look.search_blocks)} of search and {certify}"


def _headline(pilot: Pilot, smallest: str) -> str:
    """Summarise the pilot in one line, above all whether delta and the floors are in reach."""
    look = pilot.outlook
    noisy = look.delta is not None and look.delta.power < _ENOUGH_POWER
    if pilot.outcome is PilotOutcome.SOUND and noisy:
        return f"Noisy testbed: only improvements of {smallest} or more can be shown reliably"
    if pilot.outcome is PilotOutcome.SOUND and _unshown(pilot):
        return "The baseline equals its twin, but not every floor can be shown here"
    return _HEADLINES[pilot.outcome]


def _unshown(pilot: Pilot) -> list[str]:
    """Return the components whose floors cannot be shown within the budget."""
    floors = zip(pilot.components, pilot.outlook.floors, strict=False)
    return [noise.name for noise, power in floors if power < _ENOUGH_POWER]


def _detectable(pilot: Pilot, smallest: str) -> list[str]:
    """List what can be shown at this noise within the budget, and what cannot."""
    look, unshown = pilot.outlook, _unshown(pilot)
    lines = [f"an improvement of {smallest} or more, with 80% power"]
    names = [noise.name for noise in pilot.components if noise.name not in unshown]
    if look.floors and names:
        lines.append(f"that a component keeps its floor if it stays as it was: {', '.join(names)}")
    if look.floor.chance >= ENOUGH:
        lines.append(f"{look.floor.reason}; 'floor: auto' chooses it")
    if unshown:
        lines.append(f"not reliably that these keep their floors: {', '.join(unshown)}")
    return lines


def _cells(noise: ComponentNoise) -> tuple[str, str, str, str]:
    shares = (noise.cv, noise.cv_within, math.expm1(min(noise.sd_difference, 700.0)))
    return (noise.name, *(f"{100.0 * share:.1f}%" for share in shares))  # type: ignore[return-value]
