"""The ``fstune`` command: its sub-commands put together, and what becomes of errors.

An error of ours is one line on standard error and the exit status of its kind; anything else is a
defect and shows its traceback.
"""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import typer

import tuner
from tuner.cli import (
    archive,
    campaigns,
    cell,
    db,
    serve,
    sharing,
    space,
    testbed,
    token,
    watch,
    worker,
    workload,
)
from tuner.cli.compare import compare_command
from tuner.cli.samples import load_trial
from tuner.errors import TunerError

app = typer.Typer(
    name="fstune",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Find better settings for a fileserver, and know how sure you can be.\n\n"
        "A campaign proposes settings, really restarts the server and remounts the clients with "
        "them, runs a file workload, drops losers early, and certifies a winner on fresh "
        "measurements, or says that nothing beats the default."
    ),
)
app.command("run")(campaigns.run)
app.command("pilot")(campaigns.pilot)
app.command("resume")(campaigns.resume)
app.command("branch")(campaigns.branch)
app.command("watch")(watch.watch)
app.command("pause")(sharing.pause)
app.command("cancel")(sharing.cancel)
app.command("status")(sharing.status)
app.command("list")(campaigns.list_campaigns)
app.command("show")(campaigns.show_campaign)
app.command("recommend")(campaigns.recommend)
app.command("export")(archive.export)
app.command("import")(archive.import_file)
app.command("compare")(compare_command(load_trial))
app.command("serve")(serve.serve)
app.command("worker")(worker.worker)
app.add_typer(cell.app, name="cell")
app.add_typer(db.app, name="db")
app.add_typer(space.app, name="space")
app.add_typer(testbed.app, name="testbed")
app.add_typer(token.app, name="token")
app.add_typer(workload.app, name="workload")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fstune {tuner.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Options that belong to no command."""


def main() -> None:
    """Run the command line; exits with the status of what happened."""
    if sys.stdout is None:
        print("fstune: the output cannot be written: it is closed", file=sys.stderr)
        sys.exit(1)
    try:
        app()
        sys.stdout.flush()
    except TunerError as problem:
        print(f"fstune: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF):
            raise
        # Nothing that can be flushed at exit must be left, or the interpreter complains once more.
        sys.stdout = None
        print(f"fstune: the output cannot be written: {problem.strerror}", file=sys.stderr)
        sys.exit(1)
