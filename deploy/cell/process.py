"""Which process is meant by a recorded number: start time and boot identity beside the PID.

PIDs are reused and machines reboot, so a bare PID in a file proves nothing. Everything a cell ends,
it ends through a ``ProcessId`` that still names the process it was made from.
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
    """A process that is distinguished from a later one with the same number."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The identity of a running process; ProcessLookupError when there is none."""
        ticks = _start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, ticks, _boot_id())

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return self.boot_id == _boot_id() and _start_ticks(self.pid) == self.start_ticks

    def kill(self, timeout_s: float = 10.0) -> bool:
        """SIGKILL it and wait until it is gone; False if it is still there after ``timeout_s``."""
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
