"""Counters of a program's processes from proc(5) ``stat`` and ``status``. Pure.

Each process has a line of ``stat``, that of the program itself first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Unit of processor time throughout proc(5): USER_HZ, the same on every common architecture.
TICKS_PER_S = 100

#: Fields of ``stat`` after the command name, counted from 0 (proc(5) 14 to 17, and 22).
_TICKS, _START_TICKS = slice(11, 15), 19


def process_life(stat: str) -> str:
    """Identify the program's process uniquely even if its process ID is reused later. Raises
    ValueError.
    """
    ticks = _fields(stat.partition("\n")[0])[_START_TICKS]
    return f"{stat.split(maxsplit=1)[0]} since {ticks}"


def cpu_s(stat: str) -> float:
    """User and system time in seconds of all threads, past and present, of these processes and of
    those that they have started and that have ended. Raises ValueError.
    """
    lines = stat.rstrip("\n").split("\n")
    return sum(float(field) for line in lines for field in _fields(line)[_TICKS]) / TICKS_PER_S


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
    """Peak resident memory in bytes and number of threads, summed over the processes: memory that
    they share counts for each. A kernel thread has no memory of its own. Raises ValueError.

    ``status``: lines of the threads; ``Tgid`` begins those of a thread, and names its process.
    """
    first, *rest = re.split(r"^Tgid:\s+(\d+)$", status, flags=re.MULTILINE)
    lines_by_process = {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}
    processes = [process_status(lines) for lines in lines_by_process.values()]
    threads = [fields["Threads"] for fields in processes if "Threads" in fields]
    if not threads:
        raise ValueError(f"status: no 'Threads' in {status.strip()[:200]!r}")
    gauges = {"threads": float(sum(threads))}
    memory = [fields["VmHWM"] for fields in processes if "VmHWM" in fields]
    return gauges | ({"peak_memory_bytes": sum(memory) * 1024.0} if memory else {})


def _fields(stat: str) -> list[str]:
    fields = stat.rpartition(")")[2].split()
    if len(fields) <= _START_TICKS:
        raise ValueError(f"stat: no process in {stat.strip()[:200]!r}")
    return fields
