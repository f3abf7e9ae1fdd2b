"""Ends the campaigns that a test has begun: those that run when it is over, or on purpose."""

from __future__ import annotations

from deploy.cell.process import ProcessId
from tuner.model import Holder
from tuner.store import Store


def kill(holder: Holder) -> None:
    """Kill a process as a campaign's lease names it; one that has ended by itself just before is
    left alone, whoever has its number now.
    """
    boot = holder.machine.partition(":")[0]
    assert ProcessId(holder.pid, holder.start_ticks, boot).kill(timeout_s=60.0)


def kill_runs(store: Store) -> None:
    """Kill all processes that hold a testbed."""
    for lease in store.leases():
        kill(lease.holder)
