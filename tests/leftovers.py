"""Ends what a run of the tests has left behind, for example when it was interrupted by Ctrl-C.

Processes are recognized by a mark in their environment, which everything started by a run inherits.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from deploy.cell import Cells
from tuner.errors import TunerError

#: Not a variable of fstune's own: tests remove those.
MARK = "TEST_RUN_OF_FSTUNE"
_PATIENCE_S = 10.0


def end(run: str, state: Path) -> list[str]:
    """Take down the cells and end the processes of a run; return descriptions of them.

    ``state``: the state directory of the tests' cells.
    """
    leftovers = [f"cell {name}" for name in _cells(run, state)]
    for cell in leftovers:
        with suppress(TunerError):
            Cells(state).down(cell.removeprefix("cell "))
    leftovers += [_command(pid)[:100] for pid in _processes(run)]
    deadline = time.monotonic() + _PATIENCE_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _processes(run):
            _send(pid, number, run)
        while _processes(run) and time.monotonic() < deadline:
            time.sleep(0.05)
    return leftovers


def _cells(run: str, state: Path) -> list[str]:
    commands = [_command(pid) for pid in _processes(run)]
    directories = sorted((state / "cells").glob("*/"))
    return [d.name for d in directories if any(f"{d}/" in command for command in commands)]


def _processes(run: str) -> list[int]:
    return [pid for pid in _all() if pid != os.getpid() and _is_of(pid, run)]


def _all() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _is_of(pid: int, run: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={run}".encode() in environment.split(b"\0")


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


def _send(pid: int, number: int, run: str) -> None:
    """Signal the process that was checked, and never another one that has reused its number."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _is_of(pid, run):
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)
