"""Processes that work on a campaign: how to start one, and the last line of its output."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tuner.text import clean

_LONGEST_LINE = 500
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Run:
    """A process that works on a stored campaign: what to start, and the file for its output."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    log: Path

    def output(self) -> TextIO:
        """Open the output file for appending."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        return os.fdopen(os.open(self.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a")

    def last_line(self) -> str:
        """Return the last line of an ended run's output, as far as the file can be read."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError as problem:
            return f"its log cannot be read: {problem.strerror}"
        last = next((line for line in reversed(lines) if line.strip()), "its log is empty")
        return clean(last.removeprefix("fstune: "))[:_LONGEST_LINE]


def run_of(
    campaign: str,
    state_directory: Path,
    database: str | None,
    *,
    override_pilot: bool = False,
    leashed: bool = False,
    options: tuple[str, ...] = (),
) -> Run:
    """Return the run of a campaign of the database at this address, by default the directory's.

    ``leashed``: a worker's. It pauses the campaign when its standard input is closed, which also
    happens when the worker dies, and carries out a request that was made to a run that died.
    ``options``: additional options of ``fstune resume``.
    """
    entry = "tuner.cli.child" if leashed else "tuner.cli"
    arguments = ["resume", campaign, *options]
    arguments += ["--from-queue"] if leashed else []
    arguments += ["--override-pilot"] if override_pilot else []
    return _run(entry, arguments, campaign, state_directory, database)


def application_run(
    command: str, application: str, state_directory: Path, database: str | None
) -> Run:
    """Return the run of ``fstune apply`` or ``fstune rollback`` for an application; see
    ``run_of``.
    """
    arguments = [command, application, "--yes"]
    return _run("tuner.cli", arguments, application, state_directory, database)


def verification_run(
    campaign: str, blocks: int, request: int, state_directory: Path, database: str | None
) -> Run:
    """Return the run of ``fstune verify`` for the event of the campaign with the number
    ``request``; see ``run_of``.
    """
    arguments = ["verify", campaign, "--blocks", str(blocks), "--request", str(request)]
    return _run("tuner.cli", arguments, f"verify-{campaign}", state_directory, database)


def _run(
    entry: str, arguments: Sequence[str], name: str, state_directory: Path, database: str | None
) -> Run:
    directory = state_directory.absolute()
    environment = dict(os.environ, FSTUNE_STATE_DIR=str(directory), NO_COLOR="1")
    for elsewhere in ("FSTUNE_DATABASE_URL", "FSTUNE_SERVER", "FSTUNE_TOKEN", "FSTUNE_TOKEN_FILE"):
        environment.pop(elsewhere, None)
    if database is not None:
        environment["FSTUNE_DATABASE_URL"] = database
    return Run(
        (sys.executable, "-c", f"from {entry} import main; main()", *arguments),
        environment,
        directory,
        directory / "logs" / f"{name}.log",
    )
