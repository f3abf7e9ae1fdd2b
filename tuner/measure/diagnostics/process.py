"""Counters of one process from proc(5) ``stat`` and ``status``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Unit of processor time throughout proc(5): USER_HZ, the same on every common architecture.
TICKS_PER_S = 100

#: Fields of ``stat`` after the command name, counted from 0 (proc(5) 14, 15 and 22).
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS = 11, 12, 19


def process_life(stat: str) -> str:
    """Identify a process uniquely even if its process ID is reused later. Raises ValueError."""
    ticks = _fields(stat)[_START_TICKS]
    return f"{stat.split(maxsplit=1)[0]} since {ticks}"


def cpu_s(stat: str) -> float:
    """User and system time in seconds of all threads, past and present. Raises ValueError."""
    fields = _fields(stat)
    return (float(fields[_USER_TICKS]) + float(fields[_SYSTEM_TICKS])) / TICKS_PER_S


def context_switches(text: str) -> float:
    """Context switches of both kinds, summed over the ``_ctxt_switches`` lines of every thread's
    ``status``. Those of threads that have exited are missing. Raises ValueError.
    """
    counts = re.findall(r"^(?:non)?voluntary_ctxt_switches:\s+(\d{1,19})$", text, re.MULTILINE)
    if not counts:
        raise ValueError(f"status: no context switches in {text.strip()[:200]!r}")
    return float(sum(map(int, counts)))


def process_status(text: str) -> Mapping[str, int]:
    """The numeric fields of /proc/PID/status by name (sizes in kB)."""
    return {
        name: int(value)
        for name, value in re.findall(r"^(\w+):\s+(\d{1,19})(?: kB)?$", text, re.MULTILINE)
    }


def process_gauges(status: str) -> dict[str, float]:
    """Peak resident memory in bytes and number of threads. A kernel thread has no memory of its
    own. Raises ValueError.
    """
    fields = process_status(status)
    if "Threads" not in fields:
        raise ValueError(f"status: no 'Threads' in {status.strip()[:200]!r}")
    gauges = {"threads": float(fields["Threads"])}
    if "VmHWM" in fields:
        gauges["peak_memory_bytes"] = fields["VmHWM"] * 1024.0
    return gauges


def _fields(stat: str) -> list[str]:
    fields = stat.rpartition(")")[2].split()
    if len(fields) <= _START_TICKS:
        raise ValueError(f"stat: no process in {stat.strip()[:200]!r}")
    return fields
