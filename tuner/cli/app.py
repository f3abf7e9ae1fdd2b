"""The ``fstune`` command: its table of sub-commands, and the handling of errors.

A sub-command's module is imported only when the command is used, because most imports take longer
than many commands take to run. Help therefore comes from a table of their first paragraphs here.

A TunerError is printed as one line on standard error and exits with the status of its kind; any
other exception is a defect and shows its traceback.
"""

from __future__ import annotations

import errno
import gc
import sys
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import tuner
from tuner.cli.help_page import adapt, print_help
from tuner.cli.say import plain, say
from tuner.errors import SpecError, TunerError


@dataclass(frozen=True, slots=True)
class _Listed:
    """A command that has not been imported yet.

    ``where``: ``module:name`` of its function, or of the ``typer.Typer`` of a group;
    ``description``: the first paragraph of its help.
    """

    where: str
    description: str


#: In the order of help.
_COMMANDS: Mapping[str, _Listed] = {
    "init": _Listed(
        "tuner.cli.init:init",
        "Write a first campaign file, and its testbed file, after a few questions.",
    ),
    "run": _Listed(
        "tuner.cli.run:run",
        "Run a campaign to its end: pilot, search, certify, recommend, restore the testbed.",
    ),
    "pilot": _Listed(
        "tuner.cli.run:pilot",
        "Measure only the baseline and its twin: how noisy is the testbed, what can be detected?",
    ),
    "resume": _Listed(
        "tuner.cli.run:resume",
        "Resume a campaign that was paused, failed or killed, and run it to its end.",
    ),
    "branch": _Listed(
        "tuner.cli.run:branch",
        "Run a new campaign whose search is guided by the results of an earlier one.",
    ),
    "watch": _Listed(
        "tuner.cli.watch:watch",
        "Watch a campaign that another process runs, from its beginning until it stops.",
    ),
    "pause": _Listed(
        "tuner.cli.administration:pause",
        "Pause a running campaign at its next safe point; 'fstune resume' continues it.",
    ),
    "cancel": _Listed(
        "tuner.cli.administration:cancel",
        "End a campaign for good, at its next safe point if it runs. Its measurements are kept.",
    ),
    "status": _Listed(
        "tuner.cli.administration:status",
        "Show who runs which campaign where, and when each was last seen.",
    ),
    "list": _Listed(
        "tuner.cli.administration:list_campaigns",
        "List campaigns, newest first.",
    ),
    "delete": _Listed(
        "tuner.cli.administration:delete",
        "Delete a campaign with everything that was measured in it; this cannot be undone.",
    ),
    "show": _Listed(
        "tuner.cli.answers:show_campaign",
        "Show a campaign: its trials, best first, and what happened last.",
    ),
    "recommend": _Listed(
        "tuner.cli.answers:recommend",
        "Print what a campaign recommends, and on what evidence.",
    ),
    "apply": _Listed(
        "tuner.cli.apply:apply",
        "Apply what a campaign recommends: plan, ask, change, check, and undo if a check fails.",
    ),
    "rollback": _Listed(
        "tuner.cli.apply:rollback",
        "Restore exactly what was in effect before an application, and check that it is in effect.",
    ),
    "verify": _Listed(
        "tuner.cli.apply:verify",
        "Measure a recommendation against the previous configuration again: does it still hold?",
    ),
    "applications": _Listed(
        "tuner.cli.apply:applications",
        "List what was applied: which configuration, where, by whom, and what was there before.",
    ),
    "report": _Listed(
        "tuner.cli.report:report",
        "Write a report for readers who were not involved: question, answer, evidence, threats.",
    ),
    "export": _Listed(
        "tuner.cli.archive:export",
        "Export a complete campaign to a file: measurements, decisions, events.",
    ),
    "import": _Listed(
        "tuner.cli.archive:import_file",
        "Import a campaign from a file, unchanged; a campaign that exists already is refused.",
    ),
    "compare": _Listed(
        "tuner.cli.stored_samples:compare",
        "Compare samples of numbers: how much do they differ, and is there evidence for it?",
    ),
    "simulate": _Listed(
        "tuner.cli.simulate:simulate",
        "Run campaigns on a simulated service with known ground truth: what is found, how soon?",
    ),
    "serve": _Listed(
        "tuner.cli.serve:serve",
        "Serve over HTTP: web pages for people, /v1 for programs.",
    ),
    "worker": _Listed(
        "tuner.cli.worker:worker",
        "Run campaigns from the queue, on any number of machines that share a PostgreSQL.",
    ),
    "campaign": _Listed(
        "tuner.cli.campaign:app",
        "Campaign files: check one and show its plan.",
    ),
    "cell": _Listed(
        "tuner.cli.cell:app",
        "Private OpenAFS cells on this machine: real servers and clients, isolated.",
    ),
    "vm": _Listed(
        "tuner.cli.vm:app",
        "A virtual machine with the Linux kernel's OpenAFS client, on a private cell of its own.",
    ),
    "db": _Listed(
        "tuner.cli.db:app",
        "Maintain the database of campaigns.",
    ),
    "space": _Listed(
        "tuner.cli.space:app",
        "Search spaces: which settings there are, their limits, and what they mean.",
    ),
    "testbed": _Listed(
        "tuner.cli.testbed:app",
        "Inspect the hosts of a testbed file; restore them.",
    ),
    "token": _Listed(
        "tuner.cli.token:app",
        "Tokens: who may use 'fstune serve --auth', and for what.",
    ),
    "workload": _Listed(
        "tuner.cli.workload:app",
        "Workloads: what is measured, and how long it takes in a directory of your choice.",
    ),
}


class _Commands(UserDict[str, Any]):
    """Commands by name, each imported on first access."""

    def __getitem__(self, name: str) -> Any:
        command = self.data[name]
        if isinstance(command, _Listed):
            command = self.data[name] = _load(name, command.where)
        return command


class _Group(TyperGroup):
    """A group that lists its commands without importing them and imports the one that is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(_COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of help."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Return a placeholder with the text that help and completion need."""
        listed = _COMMANDS.get(cmd_name)
        return None if listed is None else TyperCommand(cmd_name, help=listed.description)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name of the command in use, the imported command, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        command = None if name is None else self.commands[name]
        gc.enable()  # off since tuner.cli.main
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of fstune itself."""
        print_help(super().format_help, ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a wrong value is reported without pydantic's words before the reason."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as problem:
            problem.message = problem.message.removeprefix("Value error, ")
            raise


def _load(name: str, where: str) -> Any:
    module, _, attribute = where.partition(":")
    value = getattr(import_module(module), attribute)
    gc.freeze()  # modules are never garbage
    alone = typer.Typer(rich_markup_mode="rich")
    if isinstance(value, typer.Typer):
        alone.add_typer(value, name=name)
    else:
        alone.command(name)(value)
    command = typer.main.get_group(alone).commands[name]
    for one in (command, *getattr(command, "commands", {}).values()):
        adapt(one)
    return command


app = typer.Typer(
    name="fstune",
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Find better settings for a fileserver, and know how sure you can be.\n\n"
        "A campaign proposes settings, really restarts the server and remounts the clients with "
        "them, runs a file workload, drops losers early, and certifies a winner on fresh "
        "measurements, or says that nothing beats the settings you have now."
    ),
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        say(f"fstune {tuner.__version__}")
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
    """Run the command line and exit with its status."""
    if sys.stdout is None:
        _complain("the output cannot be written: it is closed")
        sys.exit(1)
    try:
        app()
        sys.stdout.flush()
    except TunerError as problem:
        # The message may contain output of a host or a server.
        _complain(str(problem).replace("\n", " "))
        sys.exit(problem.exit_code)
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            _complain(f"{problem.filename}: the path is too long")
            sys.exit(SpecError.exit_code)
        if isinstance(problem, PermissionError) and problem.filename is not None:
            _complain(f"{problem.filename}: {problem.strerror}")
            sys.exit(SpecError.exit_code)
        if problem.errno not in (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF):
            raise
        # Prevent another flush at exit, about which the interpreter would complain again.
        sys.stdout = None
        _complain(f"the output cannot be written: {problem.strerror}")
        sys.exit(1)


def _complain(message: str) -> None:
    """Print why a command ends to standard error; if that cannot be written, the status is left."""
    if sys.stderr is None:  # print would use standard output
        return
    try:
        print(plain(f"fstune: {message}"), file=sys.stderr)
    except OSError:
        sys.stderr = None
