"""Rows of the tables that a campaign's pages and its report share, with their drawings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from markupsafe import Markup

from tuner.campaign.drift import DriftPoint
from tuner.model import ComponentEffect, Configuration
from tuner.page import svg
from tuner.records.differences import differences
from tuner.records.estimate import Estimate
from tuner.report.answer import floor_text
from tuner.text import signed, signed_interval, value_text


@dataclass(frozen=True, slots=True)
class EffectRow:
    """An effect on one component."""

    name: str
    effect: str
    interval: str
    drawing: Markup
    floor: str


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting before and after."""

    name: str
    before: str
    after: str
    changed: bool


def settings(before: Configuration, after: Configuration) -> tuple[SettingRow, ...]:
    """Every setting of two configurations, those that differ first."""
    differing = {d.name for d in differences(before, after)[0]}
    old, new = before.as_dict(), after.as_dict()
    rows = [
        SettingRow(name, value_text(old.get(name)), value_text(new.get(name)), name in differing)
        for name in sorted(old.keys() | new.keys())
    ]
    return tuple(sorted(rows, key=lambda row: not row.changed))


def effects(of: Mapping[str, ComponentEffect]) -> tuple[Markup, tuple[EffectRow, ...]]:
    """The effects on components that a recommendation tells of, and their axis."""
    estimates = {name: Estimate(e.ratio, e.lower, e.upper) for name, e in of.items()}
    return effect_rows(estimates, {name: floor_text(effect) for name, effect in of.items()})


def effect_rows(
    of: Mapping[str, Estimate], floors: Mapping[str, str]
) -> tuple[Markup, tuple[EffectRow, ...]]:
    """Effects on components, and their axis. ``floors``: what is known of the floors of some."""
    axis = svg.Axis.around(of.values())
    rows = tuple(
        EffectRow(
            name=name,
            effect=signed(e.ratio),
            interval=signed_interval(e.lower, e.upper),
            drawing=svg.interval(axis, e, ""),
            floor=floors.get(name, ""),
        )
        for name, e in of.items()
    )
    return svg.heading(axis), rows


def drift_drawing(drift: Sequence[DriftPoint], marks: Sequence[int] = ()) -> Markup:
    """The baseline's time over the blocks; empty before any is complete. ``marks``: blocks after
    which something disturbed it.
    """
    points = [svg.Point(p.block, 100.0 * (p.ratio - 1.0), kind=str(p.kind)) for p in drift]
    if not points:
        return Markup("")
    spread = max(abs(p.y) for p in points)
    title = f"The baseline's time by block, within {spread:.1f}% of its mean"
    return svg.series(points, title, "%", 0.0, steps=False, marks=marks)


def varies(drift: Sequence[DriftPoint]) -> str:
    """How much the baseline varies from block to block, a sentence; "" before that is known."""
    if len(drift) < 2:
        return ""
    return (
        f"From block to block the baseline varies by {100.0 * spread(drift):.1f}% "
        "(standard deviation); what moves all arms of a block alike is taken out."
    )


def spread(drift: Sequence[DriftPoint]) -> float:
    """The standard deviation of the baseline's time over its mean; 0 for less than two blocks."""
    return stdev(point.ratio for point in drift) if len(drift) > 1 else 0.0
