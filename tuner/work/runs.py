"""Runs of campaigns as processes of their own: how one is begun, and what it said last."""

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
    """A run of a stored campaign, which takes it up where it stands: what to start, and the file
    that is to have its output.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    log: Path

    def output(self) -> TextIO:
        """The file of its output, opened to be added to."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        return os.fdopen(os.open(self.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a")

    def last_line(self) -> str:
        """What a run that has ended said last, as far as its file is there."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError as problem:
            return f"its log cannot be read: {problem.strerror}"
        last = next((line for line in reversed(lines) if line.strip()), "it says nothing")
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
    """The run of a campaign of the database at this address, else of the directory's.

    ``leashed``: it pauses the campaign when its standard input ends, as it does when whoever
    started it dies. ``options``: of ``fstune resume``, besides.
    """
    entry = "tuner.cli.leash" if leashed else "tuner.cli"
    arguments = ["resume", campaign, *options]
    arguments += ["--override-pilot"] if override_pilot else []
    return _run(entry, arguments, campaign, state_directory, database)


def application_run(
    command: str, application: str, state_directory: Path, database: str | None
) -> Run:
    """The run of ``fstune apply`` or ``fstune rollback`` for an application; as ``run_of``."""
    arguments = [command, application, "--yes"]
    return _run("tuner.cli", arguments, application, state_directory, database)


def verification_run(
    campaign: str, blocks: int, request: int, state_directory: Path, database: str | None
) -> Run:
    """The run of ``fstune verify`` that an event of the campaign, ``request``, asks for; as
    ``run_of``.
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
