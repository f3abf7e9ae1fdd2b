"""``fstune testbed``: inspect real hosts before they are tuned, and restore them manually.

The kind of service decides what is inspected and how hosts are restored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import StateDir, state_directory
from tuner.cli.say import say
from tuner.errors import ConflictError
from tuner.report.listing import output, show
from tuner.report.testbed import commands_page, findings_page, hosts_page
from tuner.services.kinds import type_of_file

app = typer.Typer(no_args_is_help=True, help="Inspect the hosts of a testbed file; restore them.")

File = Annotated[Path, typer.Argument(help="A testbed file (YAML); see docs/testbeds.md.")]


@app.command()
def check(
    file: File,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List every command that would change something."),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Connect to every host, and show what it is and any problem with tuning it.

    Nothing is changed. Ends with an error when a campaign would be refused.
    """
    findings = type_of_file(file).inspect(file, state_directory(state_dir), dry_run=dry_run)
    console = output()
    show(console, hosts_page(findings.name, findings.hosts, findings.heading, findings.lines))
    console.print()
    show(console, findings_page(findings.findings, partly=not dry_run))
    if dry_run:
        console.print()
        show(console, commands_page(findings.commands))
    console.print()
    if findings.refusal:
        raise ConflictError(f"{file}: a campaign would be refused: {findings.refusal}")


@app.command()
def restore(file: File, state_dir: StateDir = None) -> None:
    """Restore the original state of every host, from the journals on the hosts themselves.

    Needs no database and no campaign. A campaign that still runs there notices it and stops.
    """
    for sentence in type_of_file(file).restore(file, state_directory(state_dir)):
        say(sentence)
