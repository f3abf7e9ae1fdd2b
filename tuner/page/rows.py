"""Table rows, with drawings, that a campaign's pages and its report share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from markupsafe import Markup

from tuner.model import ComponentEffect, Recommendation
from tuner.page import svg
from tuner.records.differences import differences
from tuner.records.estimate import Estimate
from tuner.report.answer import estimates_of, floor_text, setting_gain
from tuner.results.drift import DriftPoint
from tuner.text import signed, signed_interval, value_text


@dataclass(frozen=True, slots=True)
class EffectRow:
    """An effect on one component. ``floor``: its state, "" if it is not known; ``allowed``: the
    loss that the floor allows, "" where it is not drawn.
    """

    name: str
    effect: str
    interval: str
    drawing: Markup
    floor: str
    allowed: str = ""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting before and after. ``gain``: its effect among the others, "" if none is known of
    any.
    """

    name: str
    before: str
    after: str
    changed: bool
    gain: str = ""


def settings(answer: Recommendation) -> tuple[SettingRow, ...]:
    """Return all settings of an answer and of its baseline, those that differ first."""
    differing = {d.name for d in differences(answer.baseline, answer.configuration)[0]}
    old, new = answer.baseline.as_dict(), answer.configuration.as_dict()
    rows = [
        SettingRow(
            name,
            value_text(old.get(name)),
            value_text(new.get(name)),
            name in differing,
            gain_of_setting(answer, name) if name in differing else "",
        )
        for name in sorted(old.keys() | new.keys())
    ]
    return tuple(sorted(rows, key=lambda row: not row.changed))


def gain_of_setting(answer: Recommendation, name: str) -> str:
    """Describe the effect of a setting of an answer; "" if the effect of none is known."""
    return setting_gain(answer.settings.get(name)) if answer.settings else ""


def effects(of: Mapping[str, ComponentEffect]) -> tuple[Markup, tuple[EffectRow, ...]]:
    """Return the axis and the rows of a recommendation's effects on components."""
    return effect_rows(estimates_of(of), {name: floor_text(effect) for name, effect in of.items()})


def effect_rows(
    of: Mapping[str, Estimate], floors: Mapping[str, str]
) -> tuple[Markup, tuple[EffectRow, ...]]:
    """Return the axis and the rows of effects on components. ``floors``: state of known floors."""
    axis = svg.Axis.around(of.values())
    rows = tuple(
        EffectRow(
            name=name,
            effect=signed(e.ratio),
            interval=signed_interval(e.lower, e.upper),
            drawing=svg.interval(axis, e),
            floor=floors.get(name, ""),
        )
        for name, e in of.items()
    )
    return svg.heading(axis), rows


def drift_drawing(drift: Sequence[DriftPoint], marks: Sequence[int] = ()) -> Markup:
    """Draw the baseline's time by block; empty before any block is complete.

    ``marks``: blocks that were followed by a disturbance.
    """
    points = [svg.Point(p.block, 100.0 * (p.ratio - 1.0), kind=str(p.kind)) for p in drift]
    if not points:
        return Markup("")
    spread = max(abs(p.y) for p in points)
    title = f"The baseline's time by block, within {spread:.1f}% of its mean"
    return svg.series(points, title, steps=False, marks=marks)


def varies(drift: Sequence[DriftPoint]) -> str:
    """State in a sentence how much the baseline varies between blocks; "" if unknown."""
    if len(drift) < 2:
        return ""
    return (
        f"From block to block the baseline varies by {100.0 * spread(drift):.1f}% "
        "(standard deviation); what affects all arms of a block equally cancels out."
    )


def spread(drift: Sequence[DriftPoint]) -> float:
    """Return the baseline's relative standard deviation between blocks; 0 for less than two."""
    return stdev(point.ratio for point in drift) if len(drift) > 1 else 0.0
