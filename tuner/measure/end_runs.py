"""Kills workload runs that are still running on this host.

A standalone program, copied to a client host and run by its python3 (standard library only, 3.9):
``end_runs.py ARCHIVE PREFIX DIRECTORY`` kills every process that runs the engine in ARCHIVE with a
run identifier that begins with PREFIX. Such a run may have been abandoned without being killed, and
must not disturb later measurements. Nobody will ask for its answer either: what the host keeps of
it in DIRECTORY (``{uid}`` stands for the user) is removed. Exit status 1 when a process cannot be
killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import time

_DEATH_S = 10.0
_POLL_S = 0.02


def running(archive: str, prefix: str) -> list[int]:
    """Process IDs of this user's runs whose identifier begins with ``prefix``."""
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and _belongs(_words(name), archive, prefix) and _is_own(name)
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


def _is_own(pid: str) -> bool:
    """Whether a process is this user's: anybody can start one with the same arguments, also one of
    a program that runs as root for them, such as sudo.
    """
    own = [str(os.geteuid()).encode()] * 4
    if _runs_as_its_owner(pid):
        return False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        return any(line.split()[1:] == own for line in file if line.startswith(b"Uid:"))
    return False


def _runs_as_its_owner(pid: str) -> bool:
    """Whether a program runs as the user or group that owns its file, whoever starts it."""
    with contextlib.suppress(OSError):
        return bool(os.stat(f"/proc/{pid}/exe").st_mode & (stat.S_ISUID | stat.S_ISGID))
    return True  # the process has exited, or belongs to somebody else


def remove_records(directory: str, prefix: str) -> None:
    """Remove the directories of runs whose identifier begins with ``prefix``.

    Anybody can create a directory of that name first, so ours may have a suffix.
    """
    parent, own = os.path.split(directory.format(uid=os.geteuid()))
    homes = [f"{parent}/{name}" for name in os.listdir(parent) if name.startswith(own)]
    for home in filter(_is_ours, homes):
        for run in (f"{home}/{name}" for name in os.listdir(home) if name.startswith(prefix)):
            with contextlib.suppress(OSError):  # it was removed at the same moment
                for name in os.listdir(run):
                    os.unlink(f"{run}/{name}")
                os.rmdir(run)


def _is_ours(path: str) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def main(archive: str, prefix: str, directory: str) -> int:
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
    remove_records(directory, prefix)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
