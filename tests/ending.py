"""Killing processes of campaigns, at the end of a test or on purpose."""

from __future__ import annotations

from deploy.cell.process import ProcessId
from tuner.model import Holder
from tuner.store import Store


def kill(holder: Holder) -> None:
    """Kill the process named by a lease. One that has just ended on its own is left alone, even if
    another process now has its number.
    """
    boot = holder.machine.partition(":")[0]
    assert ProcessId(holder.pid, holder.start_ticks, boot).kill(timeout_s=60.0)


def kill_runs(store: Store) -> None:
    """Kill all processes that hold a lease of a testbed."""
    for lease in store.leases():
        kill(lease.holder)
