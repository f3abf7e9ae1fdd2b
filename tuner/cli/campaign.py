"""``fstune campaign``: check a campaign file before anything is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from tuner.cli.options import StateDir, state_directory
from tuner.compose import Prepared, prepare
from tuner.errors import ConflictError, SpecError
from tuner.plan.rules import first_alpha, rules_of
from tuner.report.listing import output, show
from tuner.report.plan import budget_lines, plan_page
from tuner.report.testbed import commands_page, findings_page
from tuner.services.kind import Rehearsal
from tuner.spec.campaign import read_spec
from tuner.spec.checking import check_measurements
from tuner.spec.values import compared_values, first_values
from tuner.text import clean

app = typer.Typer(no_args_is_help=True, help="Campaign files: check one and show its plan.")


@app.callback()
def _group() -> None:
    """Keeps this a group while it has one command."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The campaign file (YAML).")],
    state_dir: StateDir = None,
) -> None:
    """Check a campaign file, against its hosts too, and show its plan.

    Nothing is measured, changed or stored: hosts are only read, and every command that would change
    something on them is listed. Ends with an error when the campaign would be refused.
    """
    spec, directory = read_spec(file), state_directory(state_dir)
    try:
        check_measurements(spec)
        prepared = prepare(spec, directory)
    except SpecError as problem:
        raise SpecError(f"{file}: {problem}") from problem
    console = output()
    show(console, _page(prepared))
    for section in spec.sections:
        try:
            rehearsal = section.type.rehearse(section.section, prepared.needs, directory)
        except SpecError as problem:
            raise SpecError(f"{file}: {problem}") from problem
        if rehearsal is not None:
            _show_hosts(file, rehearsal, prepared, console)


def _page(prepared: Prepared) -> RenderableType:
    spec, work = prepared.spec, prepared.workload.spec
    presets = [
        (f"spaces.{part}.presets", {preset.name: preset.options or "nothing set"})
        for part, space in prepared.spaces.items()
        for preset in space.presets
        if preset.name in spec.spaces[part].presets
    ]
    return plan_page(
        spec.name,
        [section.type.describe(section.section) for section in spec.sections],
        f"{work.name}: {', '.join(component.name for component in work.components)}",
        prepared.spaces,
        [*presets, *first_values(spec)],
        compared_values(spec),
        budget_lines(
            rules_of(spec, prepared.workload),
            first_alpha(spec),
            guided=spec.warm_start == "auto" and not spec.compare,
        ),
    )


def _show_hosts(file: Path, rehearsal: Rehearsal, prepared: Prepared, console: Console) -> None:
    """Show the findings on a testbed's hosts, and the commands that would be run there.

    Raises ConflictError or SpecError if the campaign would be refused.
    """
    console.print()
    show(console, findings_page(rehearsal.findings))
    reason = refusal(rehearsal, prepared)
    if rehearsal.target is None:
        raise ConflictError(f"{file}: the campaign would be refused: {reason}")
    console.print(
        f"\nCommands that would change something on {clean(rehearsal.name)}", style="bold"
    )
    show(console, commands_page(rehearsal.commands))
    if reason is not None:
        raise SpecError(f"{file}: {reason}")


def refusal(rehearsal: Rehearsal, prepared: Prepared) -> str | None:
    """Return why a campaign would be refused on an inspected testbed, None if it would not."""
    from tuner.run.equivalence import least_facts
    from tuner.run.proposing import compared, first_proposals

    if rehearsal.target is None:
        return "; ".join(f"{f.host}: {f.message}" for f in rehearsal.findings if f.refuses)
    facts = least_facts({rehearsal.name: rehearsal.target})
    try:
        first_proposals(rehearsal.target, facts, prepared.spec)
        compared(rehearsal.target, facts, prepared.spec)
    except SpecError as problem:
        return str(problem)
    return None
