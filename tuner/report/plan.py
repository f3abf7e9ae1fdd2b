"""One-page plan of a campaign file: what it would do, before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from search_spaces import Expression, Parameter, Space, describe
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.power import detectable_effect
from tuner.judge.words import blocks
from tuner.plan.economy import first_fresh_blocks, least_measurements
from tuner.plan.rules import Rules
from tuner.report.answer import columns, section
from tuner.report.drawing import Printable, paragraph
from tuner.report.styles import NAME, STRONG, literal
from tuner.text import clean, duration, value_text

#: Standard deviations of a paired difference for which the page states the detectable effect.
_NOISE = (0.01, 0.03, 0.1)


def plan_page(
    name: str,
    testbeds: Sequence[str],
    workload: str,
    spaces: Mapping[str, Space],
    first: Sequence[tuple[str, Mapping[str, object]]],
    compared: Sequence[tuple[str, Mapping[str, object]]],
    budget: RenderableType,
) -> RenderableType:
    """Render the plan of a valid campaign.

    ``first``: configurations that the search tries first, each with its key in the file;
    ``compared``: configurations to compare with the baseline instead of searching.
    """
    parts: list[RenderableType] = [
        Text(f"Campaign {clean(name)}: the file is valid", style=STRONG),
        section("Testbed", *map(paragraph, testbeds)),
        section("Workload", paragraph(workload)),
        section("Parts", _parts(spaces, searched=not compared)),
    ]
    if compared:
        parts.append(section("Compared with the baseline", *map(paragraph, _settings(compared))))
    else:
        parts.append(section("Parameters searched", _parameters(spaces)))
    if first:
        parts.append(section("First guesses", *map(paragraph, _settings(first))))
    parts.append(section("Budget", budget))
    return Printable(Group(*parts))


def _settings(of: Sequence[tuple[str, Mapping[str, object]]]) -> Iterator[str]:
    """Yield a line for each configuration, with its key."""
    for where, values in of:
        settings = ", ".join(f"{name} = {_value(value)}" for name, value in values.items())
        yield f"{where}: {settings or '(baseline)'}"


def _value(value: object) -> str:
    return value_text(value) if isinstance(value, int | str) else str(value)


def _parts(spaces: Mapping[str, Space], *, searched: bool) -> RenderableType:
    headings = ("Part", "Space", "Program", *(["Searched"] if searched else []))
    table = columns(*headings, right=(3,))
    for component, space in spaces.items():
        counts = [f"{len(space.searched)} of {len(space.parameters)}"] if searched else []
        program = f"{space.program} {space.versions}"
        table.add_row(literal(component, NAME), literal(space.name), literal(program), *counts)
    return table


def _parameters(spaces: Mapping[str, Space]) -> RenderableType:
    table = columns("Parameter", "Values", "Default")
    for component, space in spaces.items():
        for parameter in space.searched:
            table.add_row(
                literal(f"{component}.{parameter.name}", NAME),
                literal(_range(parameter)),
                literal(_default(parameter)),
            )
    return table


def _default(parameter: Parameter) -> str:
    computed = isinstance(parameter.defaults["none"], Expression)
    return "computed" if computed else describe.defaults(parameter)


def _range(parameter: Parameter) -> str:
    return f"{describe.sensible(parameter)} {parameter.unit}".strip()


def budget_lines(rules: Rules, alpha: float, *, guided: bool) -> RenderableType:
    """Render the budget, and the smallest gain it can certify at several levels of noise.

    How long a run takes is not known yet, so only a limit on measurements tells how many blocks
    fit. ``guided``: see ``first_fresh_blocks``.
    """
    most, why = rules.certify_blocks, "the most that an attempt takes"
    measurements = rules.budget_measurements
    limit = "" if measurements is None else f", at most {measurements} measurements"
    lines: list[RenderableType] = [
        paragraph(f"{duration(rules.budget_s)} of measuring time{limit}")
    ]
    if measurements is not None:
        room = first_fresh_blocks(measurements, rules, guided=guided)
        if room < most:
            most, why = room, f"the most that {measurements} measurements allow"
    if most < MIN_PAIRS:
        lines.append(
            paragraph(
                f"{measurements} measurements are too few to certify anything: this campaign needs "
                f"at least {least_measurements(rules, guided=guided)}; raise budget.measurements"
            )
        )
    else:
        lines += [
            paragraph(
                f"if the budget leaves room for {blocks(most)} of certification, {why}; with 80% "
                "power:"
            ),
            _smallest(most, alpha),
            paragraph(_longest_run(rules, guided=guided)),
        ]
    if rules.pilot is not None:
        text = (
            "'fstune pilot' measures how noisy the testbed is, and how long a run takes, so how "
            "many blocks fit the budget"
        )
        lines.append(paragraph(text))
    return Group(*lines)


def _longest_run(rules: Rules, *, guided: bool) -> str:
    """Return how long a run may take for a certificate to fit the measuring time, as a sentence."""
    least = least_measurements(rules, guided=guided)
    run_s = rules.budget_s * rules.testbeds / least
    time = duration(run_s) if run_s >= 1.0 else f"{run_s:.2g} s"
    return (
        f"to certify anything takes at least {least} measurements, so a run of the workload may "
        f"take {time} at most, restarts included"
    )


def _smallest(certify_blocks: int, alpha: float) -> RenderableType:
    """Return the table of the smallest gain that so many blocks certify."""
    table = columns("Noise of a pair (sd)", "Smallest improvement certified", right=(0, 1))
    effect = detectable_effect(min(500, certify_blocks), alpha)
    for sd in _NOISE:
        percentage = f"{100.0 * math.expm1(min(effect * sd, 700.0)):.1f}%"
        table.add_row(f"{100.0 * sd:.0f}%", percentage if math.isfinite(effect) else "none")
    return table
