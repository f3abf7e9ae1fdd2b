"""Holding a testbed for the time that a campaign runs on it, so that nobody else does.

The holder is written down with the campaigns, where every machine that shares them sees it, and
signs of life are given from a thread of its own.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from deploy.cell.process import ProcessId
from tuner.errors import ConflictError, StoreError
from tuner.model import Holder, Lease
from tuner.store import NewEvent, Store

#: Signs of life within the time after which a process counts as dead.
_BEATS = 6

_log = logging.getLogger(__name__)


def this_process() -> Holder:
    """This process, as others know it."""
    own = ProcessId.of(os.getpid())
    return Holder(socket.gethostname(), _machine(), own.pid, own.start_ticks)


def is_gone(holder: Holder) -> bool:
    """Whether a process of this machine has ended; of others nobody knows, which is False."""
    machine = _machine()
    if holder.machine != machine:
        return False
    boot = machine.partition(":")[0]
    return not ProcessId(holder.pid, holder.start_ticks, boot).is_alive()


def _machine() -> str:
    """Equal for processes that see each other: one boot, one namespace of process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"


class Held:
    """A lease that is kept alive until ``close``."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self.lease = lease
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise ConflictError when another process has taken over."""
        if self._lost:
            raise ConflictError(
                f"testbed {self.lease.testbed} was taken over by another process, which heard "
                f"nothing of this one for {self.lease.limit_s:.0f} s"
            )

    def superseded(self) -> bool:
        """Whether another process now runs the campaign."""
        mine = self.lease
        return any(
            other.campaign == mine.campaign and other.token != mine.token
            for other in self._store.leases()
        )

    def close(self) -> None:
        """Stop, and give the lease back."""
        self._stop.set()
        self._thread.join()
        # Without the database the lease ends by itself: this process does.
        with suppress(StoreError):
            self._store.give_back(self.lease)

    def _beat(self) -> None:
        while not self._lost and not self._stop.wait(self.lease.limit_s / _BEATS):
            try:
                self._lost = not self._store.beat(self.lease)
            except StoreError as problem:
                _log.warning("no sign of life could be given: %s", problem)


@contextmanager
def held(store: Store, campaign: str, testbed: str, limit_s: float) -> Iterator[Held]:
    """Hold a testbed for a campaign. Raises ConflictError when another process uses it.

    ``limit_s``: without a sign of life for so long, another machine may take over.
    """
    said = "the run was cut off; another process has taken over the testbed"
    event = NewEvent(datetime.now(UTC), "block-void", said)
    lease = store.take_testbed(campaign, testbed, this_process(), limit_s, is_gone, event)
    holding = Held(store, lease)
    try:
        yield holding
    finally:
        holding.close()
