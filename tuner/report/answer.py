"""Render a campaign's answer for people: headline, claim, settings, components, options.

Owns the wording of recommendations, which claims exactly what tuner.judge.certify proves.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tuner.judge.levels import ALPHA, FEW_BLOCKS
from tuner.judge.words import blocks
from tuner.model import BASELINE, Answer, ComponentEffect, Recommendation, SettingEffect
from tuner.records.differences import differences
from tuner.records.estimate import Estimate
from tuner.records.none_ran import none_ran
from tuner.report.drawing import Axis, ToWidth, paragraph
from tuner.report.listing import Labelled, stacked
from tuner.report.styles import FASTER, NAME, QUIET, SLOWER, STRONG, literal, tone
from tuner.text import (
    confidence_text,
    counted,
    faster,
    interval,
    signed,
    signed_interval,
    value_text,
)

#: Heading of the column with the effect of each setting among the others.
SETTING_GAIN: Final = "Its gain (95% interval)"
_BAR_CELLS = 17
#: Terminal cells between two columns.
_BETWEEN = 2


def section(title: str, *content: RenderableType) -> RenderableType:
    """Return a titled section, preceded by an empty line."""
    return Group("", Text(title, style=STRONG), *(Padding(c, (0, 0, 0, 2)) for c in content))


def columns(*headings: str, right: Iterable[int] = ()) -> Table:
    """Return a table without rules; the columns whose indices are in `right` are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0), header_style=QUIET)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i in set(right) else "left", overflow="fold")
    return table


def headline(recommendation: Recommendation) -> Text:
    """The answer in one line."""
    r = recommendation
    if r.verification:
        holds = f" {FASTER}" if r.answer is Answer.RECOMMENDED else ""
        return Text(f"Verification: {r.reason}", style=f"{STRONG}{holds}")
    if none_ran(r):
        return Text("No configuration could be run: keep the baseline", style=f"{STRONG} {SLOWER}")
    if r.answer is Answer.NO_IMPROVEMENT:
        return Text("No improvement shown: keep the baseline", style=STRONG)
    if r.ratio is None:
        return Text(f"Recommended: trial {r.trial}", style=f"{STRONG} {FASTER}")
    return Text(f"Recommended: {faster(r.ratio)} than the baseline", style=f"{STRONG} {FASTER}")


def claim(recommendation: Recommendation) -> str:
    """State in one sentence what the answer claims and at what confidence.

    The answer was selected from several attempts or configurations, so the stated level is the one
    that holds for all of them simultaneously.
    """
    r = recommendation
    if r.verification:
        return _verified(r)
    if r.answer is Answer.RECOMMENDED:
        level = f"{100.0 * ALPHA:.3g}%"
        few = f", which {_fresh(r.blocks)} cannot show" if r.blocks < FEW_BLOCKS else ""
        return (
            f"False-alarm risk of the campaign: at most {level}, however often it looks, if "
            f"differences are roughly normal{few}."
        )
    largest = r.largest_compatible_improvement
    if r.trial == BASELINE or largest is None:
        return "No trial is certified, so no improvement is claimed."
    # The bound covers the finalists: of other trials, an improvement may have been missed.
    if math.isinf(largest):
        return "Too little was measured to rule out a gain of any size."
    sure = f"{100.0 * (1.0 - ALPHA):.4g}% confidence"
    if largest <= 0.0:
        return f"The fresh blocks rule out that a trial measured in them is faster ({sure})."
    return (
        f"A trial measured in fresh blocks may still be up to {faster(1.0 / (1.0 + largest))} "
        f"({sure}). Trials measured only in the search may be faster still."
    )


def _verified(r: Recommendation) -> str:
    """State what a verification measured, which is not valid under repeated looks."""
    if r.ratio is None or r.lower is None or r.upper is None:
        return "A verification certifies nothing itself."
    return (
        f"What was recommended is {faster(r.ratio)} than what was there before, "
        f"{confidence_text(r.confidence)} {interval(r.lower, r.upper)}: Student's t over "
        f"{_fresh(r.blocks)}, a number fixed beforehand. A verification certifies nothing itself."
    )


def why_baseline(recommendation: Recommendation) -> str:
    """Say why the options of the baseline are printed, where nothing is recommended."""
    if recommendation.verification:
        return f"{recommendation.reason}; these are the options from before it was applied"
    what = "no configuration could be run" if none_ran(recommendation) else "no improvement shown"
    return f"{what}; keep these options, which are in force"


def answer(recommendation: Recommendation, *, verbose: bool = False) -> RenderableType:
    """Render headline, interval, reason and claim; ``verbose`` adds the e-value."""
    r = recommendation
    lines: list[RenderableType] = [headline(r)]
    if r.verification:  # both sentences say the rest
        return Group(*lines, "", paragraph(claim(r)))
    if r.ratio is not None and r.lower is not None and r.upper is not None:
        gain = f"{confidence_text(r.confidence)} {interval(r.lower, r.upper)}"
        if r.answer is Answer.NO_IMPROVEMENT:  # whose headline has no estimate
            gain = f"{faster(r.ratio)}, {gain}"
        lines.append(paragraph(f"trial {r.trial}: {gain}, on {_fresh(r.blocks)}", QUIET))
    if r.reason:
        lines += ["", paragraph(r.reason)]
    lines += ["", paragraph(claim(r))]
    if verbose and r.e_value is not None and r.threshold is not None:
        evidence = (
            f"Evidence: e-value {_short(r.e_value)}, {_short(r.threshold)} needed; calibrated for "
            "differences that are roughly normal and for the blocks allowed."
        )
        lines.append(paragraph(evidence, QUIET))
    return Group(*lines)


def _fresh(n: int) -> str:
    return blocks(n).replace(" ", " fresh ", 1)


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 10_000.0 else f"{number:.1e}"


def settings(recommendation: Recommendation) -> RenderableType:
    """Render the settings that differ from the baseline side by side, and count the others."""
    r = recommendation
    changed, equal = differences(r.baseline, r.configuration)
    if not changed:
        same = f"{counted(equal, 'setting')}, all as in the baseline"
        return Text(same if equal else "no settings were changed", style=QUIET)
    new = "Recommended" if r.answer is Answer.RECOMMENDED else f"Trial {r.trial}"
    headings = ("Setting", "Baseline", new, *([SETTING_GAIN] if r.settings else []))
    rows = []
    for d in changed:
        row = [
            literal(d.name, NAME),
            literal(value_text(d.old), QUIET if d.old is None else ""),
            literal(value_text(d.new), QUIET if d.new is None else STRONG),
        ]
        if r.settings:
            of = r.settings.get(d.name)
            style = QUIET if of is None else tone(of.lower, of.upper)
            row.append(Text(setting_gain(of), style=style))
        rows.append(row)
    table = ToWidth(lambda width: _settings_table(headings, rows, width))
    return Group(table, Text(f"{equal} more, equal in both", style=QUIET)) if equal else table


def _settings_table(
    headings: Sequence[str], rows: Sequence[Sequence[Text]], width: int
) -> RenderableType:
    """Render settings without breaking a name, which readers look up and copy.

    Where there is too little room, the intervals have lines of their own, or else every cell has.
    """
    if _natural_width(headings, rows) > width and headings[-1] == SETTING_GAIN:
        headings = (*headings[:-1], headings[-1].replace(" (", "\n("))
        rows = [
            (*row[:-1], Text(row[-1].plain.replace(" (", "\n("), row[-1].style)) for row in rows
        ]
    if _natural_width(headings, rows) > width:
        return stacked(headings, rows)
    table = columns(*headings)
    for row in rows:
        table.add_row(*row)
    return table


def _natural_width(headings: Sequence[str], rows: Sequence[Sequence[Text]]) -> int:
    """Return the cells that a table takes if none of its lines is wrapped."""
    widths = -_BETWEEN
    for i, heading in enumerate(headings):
        lines = "\n".join([heading, *(row[i].plain for row in rows)]).split("\n")
        widths += max(map(cell_len, lines)) + _BETWEEN
    return widths


def setting_gain(effect: SettingEffect | None) -> str:
    """Describe the effect of one setting among others for the column SETTING_GAIN."""
    if effect is None:
        return "not known"
    return f"{signed(effect.ratio)} ({signed_interval(effect.lower, effect.upper)})"


def components(effects: Mapping[str, ComponentEffect], confidence: float) -> RenderableType:
    """Render each component's effect (positive = faster): estimate, interval and floor."""

    heading = confidence_text(confidence)
    estimates = estimates_of(effects)
    spans = {name: signed_interval(e.lower, e.upper) for name, e in effects.items()}
    floors = {name: floor_text(e) for name, e in effects.items()}
    changes = (signed(e.ratio) for e in effects.values())
    other_columns = (("Component", *effects), ("Faster by", *changes), (heading, *spans.values()))
    beside_bars = sum(max(map(len, column)) for column in other_columns)
    beside_bars += (
        max(map(len, floors.values()), default=0) + _BETWEEN * len(other_columns) + _BETWEEN
    )

    def make(width: int) -> RenderableType:
        if width < beside_bars - _BETWEEN:
            rows = [
                (
                    literal(name, NAME),
                    Text(signed(e.ratio), style=tone(e.lower, e.upper)),
                    Text(spans[name]),
                    Text(floors[name], style="" if e.floor_held else SLOWER),
                )
                for name, e in effects.items()
            ]
            return stacked(("Component", "Faster by", heading, "Floor"), rows)
        bars = width >= beside_bars + _BAR_CELLS
        axis = Axis.around(estimates.values(), _BAR_CELLS)
        table = columns("Component", "Faster by", heading, right=(1,))
        if bars:
            table.add_column(axis.heading(), no_wrap=True)
        table.add_column("Floor")
        for name, effect in effects.items():
            row: list[RenderableType] = [
                literal(name, NAME),
                Text(signed(effect.ratio), style=tone(effect.lower, effect.upper)),
                Text(spans[name], no_wrap=bars),
            ]
            if bars:
                row.append(axis.bar(estimates[name]))
            holds = effect.floor_held
            row.append(Text(floors[name], style="" if holds else SLOWER))
            table.add_row(*row)
        return table

    return ToWidth(make)


def estimates_of(effects: Mapping[str, ComponentEffect]) -> dict[str, Estimate]:
    """Return the estimates of an answer's effects on components."""
    return {name: Estimate(e.ratio, e.lower, e.upper) for name, e in effects.items()}


def floor_text(effect: ComponentEffect) -> str:
    """Describe the state of a component's floor.

    "met", "not settled", or, where at least a slowdown has been shown, "slower".
    """
    if effect.floor_held:
        return "met"
    return "slower" if effect.lower > 1.0 else "not settled"


def flag_line(arguments: Iterable[str]) -> str:
    """Join the arguments into one line, quoted for a POSIX shell."""
    return shlex.join(arguments)


def arguments(line: str) -> list[str]:
    """Return the arguments of a line of ``flag_line``, each still quoted; any other line as one."""
    try:
        quoted = [shlex.quote(argument) for argument in shlex.split(line)]
    except ValueError:
        quoted = []
    return quoted if " ".join(quoted) == line else [line]


def flags(of: Mapping[str, tuple[str, ...]]) -> RenderableType:
    """Render the command-line options, one row per component."""
    lines = ((component, flag_line(words) or "(no options)") for component, words in of.items())
    return Labelled(tuple((literal(component, NAME), literal(line)) for component, line in lines))


def findings(
    recommendation: Recommendation,
    *,
    advice: Sequence[RenderableType] = (),
    verbose: bool = False,
) -> RenderableType:
    """Render the complete answer.

    ``advice``: sections that explain what the settings mean and where to put them.
    """
    r = recommendation
    recommended = r.answer is Answer.RECOMMENDED
    rejected = not recommended and r.configuration != r.baseline
    title = "Best trial, not recommended" if rejected else "Settings"
    parts: list[RenderableType] = [answer(r, verbose=verbose), section(title, settings(r))]
    if r.notes:
        parts.append(section("Caveats", *map(paragraph, r.notes)))
    if r.components:
        parts.append(section("Components", components(r.components, r.confidence)))
    parts += advice
    if recommended and r.flags:
        parts.append(section("Options", flags(r.flags)))
    return Group(*parts)
