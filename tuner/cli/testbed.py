"""``fstune testbed``: look at real hosts before they are tuned, and put them back by hand."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tuner.cli.options import StateDir, state_directory
from tuner.cli.say import say
from tuner.errors import ConflictError
from tuner.measure.workload import load_workload
from tuner.report.tables import show
from tuner.report.testbed import commands_page, findings_page, hosts_page
from tuner.services.openafs import hosts
from tuner.services.openafs.assembly import usual_wishes
from tuner.services.openafs.file import read_testbed

app = typer.Typer(no_args_is_help=True, help="Look at the hosts of a testbed file; put them back.")

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
    testbed = read_testbed(file)
    connections = hosts.Hosts(testbed, file.resolve().parent, state_directory(state_dir))
    console = Console()
    with closing(connections):
        wanted = usual_wishes(testbed.clients[0].control.program)
        survey = hosts.look(testbed, connections, wanted)
        heading = f"Fileserver on {survey.server.host}"
        page = hosts_page(
            testbed.name, (survey.server, *survey.clients), heading, survey.programs.lines()
        )
        show(console, page)
        console.print()
        show(console, findings_page(survey.findings))
        if dry_run:
            console.print()
            work = load_workload("mixed-use")
            rehearsal = hosts.rehearse(testbed, connections, wanted, work, survey.findings)
            show(console, commands_page(rehearsal.commands))
    console.print()
    if survey.refused is not None:
        raise ConflictError(f"{file}: a campaign would be refused: {survey.refused}")


@app.command()
def restore(file: File, state_dir: StateDir = None) -> None:
    """Put every host back the way it was found, from the journals on the hosts themselves.

    Needs no database and no campaign. A campaign that still runs there notices, and stops.
    """
    testbed = read_testbed(file)
    connections = hosts.Hosts(testbed, file.resolve().parent, state_directory(state_dir))
    with closing(connections):
        for said in hosts.restore(connections.all, testbed.restore.directory):
            say(said)
