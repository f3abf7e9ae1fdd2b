"""Kills workload runs that are still going on on this host.

A standalone program, copied to a client host and run by its python3 (standard library only, 3.9):
``end_runs.py ARCHIVE PREFIX`` kills every process that runs the engine in ARCHIVE with a run
identifier that begins with PREFIX. Such a run may have been abandoned without being killed, and
must not disturb later measurements. Exit status 1 when a process cannot be killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

_DEATH_S = 10.0
_POLL_S = 0.02


def running(archive: str, prefix: str) -> list[int]:
    """Process IDs of runs whose identifier begins with ``prefix``."""
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and _belongs(_words(name), archive, prefix)
    ]


def _belongs(words: list[str], archive: str, prefix: str) -> bool:
    has_run_id = any(
        words[at] == "--run-id" and words[at + 1].startswith(prefix) for at in range(len(words) - 1)
    )
    return has_run_id and archive in words


def _words(pid: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []  # the process has exited


def main(archive: str, prefix: str) -> int:
    """Kill matching processes until none is left; return the exit status."""
    deadline = time.monotonic() + _DEATH_S
    while pids := running(archive, prefix):
        if time.monotonic() > deadline:
            print(f"processes {pids} of runs {prefix} do not die", file=sys.stderr)
            return 1
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
