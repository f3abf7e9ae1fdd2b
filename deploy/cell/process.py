"""Unambiguous process identity: the PID with its start time and the boot ID.

PIDs are reused and machines reboot, so a bare PID in a file proves nothing. A cell kills processes
only through a ``ProcessId``, which never matches a different process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_START_TICKS_FIELD = 19  # field 22 of proc(5) stat, counted after the command name


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Identity of a process, distinct from a later one with the same PID."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The identity of a running process. Raises ProcessLookupError if there is none."""
        ticks = _start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, ticks, _boot_id())

    def is_alive(self) -> bool:
        """Whether this process is still running (a zombie is not)."""
        return self.boot_id == _boot_id() and _start_ticks(self.pid) == self.start_ticks

    def kill(self, timeout_s: float = 10.0) -> bool:
        """Send SIGKILL and wait for the exit; False if still alive after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return True


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[_START_TICKS_FIELD - 1])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
