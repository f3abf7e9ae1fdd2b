"""Render the results of simulated campaigns on a surface, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.model import Answer, Configuration
from tuner.records.differences import changes
from tuner.report.drawing import Printable, paragraph
from tuner.report.listing import Column, Listing
from tuner.report.styles import FASTER, NAME, SLOWER, literal
from tuner.simulate.campaign import Result, Settings
from tuner.simulate.study import HOURS, NEAR, regret_at, summary
from tuner.simulate.surface import Surface
from tuner.text import clean, faster

_ANSWERS = {Answer.RECOMMENDED.value: "recommended", Answer.NO_IMPROVEMENT.value: "no improvement"}


def surfaces_table(surfaces: Sequence[Surface]) -> RenderableType:
    """Render the available surfaces, one per row."""
    columns = (
        Column("Surface", rigid=True),
        Column("Noise", rigid=True, right=True),
        Column("Best", rigid=True),
        Column("What is hidden in it"),
    )
    rows = tuple(
        (
            literal(surface.name, NAME),
            Text(f"{surface.world.noise.component:.2f}"),
            Text(_change(surface.best[1])),
            literal(surface.file.about),
        )
        for surface in surfaces
    )
    return Printable(Listing(columns, rows))


def surfaces_document(surfaces: Sequence[Surface]) -> list[dict[str, object]]:
    """Return the available surfaces as a JSON document; scores are in log units."""
    return [
        {
            "name": surface.name,
            "noise": surface.world.noise.component,
            "best": _best_document(surface),
            "about": surface.file.about,
        }
        for surface in surfaces
    ]


def _best_document(surface: Surface) -> dict[str, object]:
    best, score = surface.best
    return {"configuration": best.as_dict(), "score": score}


def study_page(surface: Surface, results: Sequence[Result]) -> RenderableType:
    """Render a row per campaign, ordered by seed, then a summary."""
    ordered = sorted(results, key=lambda result: result.seed)
    columns = (
        Column("Seed", rigid=True, right=True),
        Column("Answer", rigid=True),
        Column("Truth", rigid=True),
        Column("Regret", rigid=True, right=True),
        Column("Certified", rigid=True, right=True),
        Column("Spent", rigid=True, right=True),
        Column("Trials", rigid=True, right=True),
        Column("Configuration"),
    )
    rows = tuple(_row(surface, result) for result in ordered)
    best, score = surface.best
    return Group(
        Printable(Listing(columns, rows)),
        Text(""),
        *(paragraph(line) for line in _summary_lines(surface, results, best, score)),
    )


def _row(surface: Surface, result: Result) -> tuple[Text, ...]:
    answer = Text(_ANSWERS.get(result.answer, result.answer))
    if result.false:
        answer = Text("FALSE", SLOWER)
    elif result.answer == Answer.RECOMMENDED:
        answer = Text("recommended", FASTER)
    return (
        Text(str(result.seed)),
        answer,
        Text(_change(result.score)),
        Text(f"{result.regret:.3f}"),
        Text("" if result.certified_h is None else _hours(result.certified_h)),
        Text(_hours(result.hours)),
        Text(str(result.trials)),
        literal(changes(surface.baseline, result.configuration)),
    )


def _summary_lines(
    surface: Surface, results: Sequence[Result], best: Configuration, score: float
) -> list[str]:
    totals = summary(results)
    of = f"of {totals.campaigns}"
    settings = clean(changes(surface.baseline, best)) or "the baseline"
    certified, near = (
        "not in half of them" if hours is None else f"median time {_hours(hours)}"
        for hours in (totals.certified_h, totals.near_h)
    )
    falling = ", ".join(
        f"{_median_regret(results, hours):.3f} at {_hours(hours)}"
        for hours in HOURS
        if hours <= max(result.hours for result in results) + 1e-9
    )
    floor = f"{100.0 * surface.floor:g}%"
    lines = [
        f"{surface.name}: the best that keeps the floor of {floor} is {_change(score)}: {settings}",
        f"recommended: {totals.recommended} {of} ({certified}), of these false: {totals.false}",
        f"regret at the end: median {totals.regret:.3f}; "
        f"under {NEAR:g}: {totals.near} {of} ({near})",
    ]
    # Short campaigns end before the first of these times.
    return [*lines, f"median regret of what looks best: {falling}"] if falling else lines


def _median_regret(results: Sequence[Result], hours: float) -> float:
    regrets = sorted(regret_at(result.curve, hours) for result in results)
    middle = len(regrets) // 2
    return regrets[middle] if len(regrets) % 2 else (regrets[middle - 1] + regrets[middle]) / 2.0


def _change(score: float) -> str:
    return "as the baseline" if score == 0.0 else faster(math.exp(score))


def _hours(hours: float) -> str:
    return f"{hours:.2f} h"


def study_document(
    surface: Surface, settings: Settings, results: Sequence[Result]
) -> dict[str, object]:
    """Return everything as a JSON document.

    Scores and regrets are in log units, times in hours; settings have qualified names.
    """
    ordered = sorted(results, key=lambda result: result.seed)
    return {
        "surface": surface.name,
        "noise": surface.world.noise.component if settings.noise is None else settings.noise,
        "settings": asdict(settings),
        "floor": surface.floor,
        "best": _best_document(surface),
        "campaigns": [
            asdict(result)
            | {"configuration": result.configuration.as_dict(), "best": result.best.as_dict()}
            for result in ordered
        ],
        "summary": asdict(summary(ordered)) if ordered else None,
    }
