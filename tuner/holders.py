"""Which process holds a testbed or a host, and whether it has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from deploy.cell.process import ProcessId
from tuner.model import Holder


def this_process() -> Holder:
    """Return this process as the holder of a lease."""
    own = ProcessId.of(os.getpid())
    return Holder(socket.gethostname(), _machine(), own.pid, own.start_ticks)


def is_gone(holder: Holder) -> bool:
    """Whether a process of this machine has ended; False for other machines (unknown there)."""
    machine = _machine()
    if holder.machine != machine:
        return False
    boot = machine.partition(":")[0]
    return not ProcessId(holder.pid, holder.start_ticks, boot).is_alive()


def _machine() -> str:
    """Identify a machine: equal for processes that see each other (same boot and PID namespace)."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
