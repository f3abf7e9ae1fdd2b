"""Hold a testbed while a campaign runs on it, so that nobody else uses it.

The holder is stored with the campaigns, visible to every machine that shares the database. A
separate thread sends heartbeats.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from tuner.errors import ConflictError, StoreError
from tuner.holders import is_gone, this_process
from tuner.model import Lease
from tuner.states import EventKind
from tuner.store import NewEvent, Store
from tuner.store.leases import REPEAT, Later

#: Heartbeats per lease limit, the time after which a silent process counts as dead.
_BEATS = 6
#: How often to look whether the clock was set, and from which difference it was, in seconds.
_LOOK_S, _SET_S = 1.0, 5.0

_log = logging.getLogger(__name__)


class LeaseKeeper:
    """Leases of one campaign, renewed by a thread until ``close``."""

    def __init__(self, store: Store, leases: Sequence[Lease]) -> None:
        self._store = store
        self._leases = {lease.testbed: lease for lease in leases}
        self._campaign, self._limit_s = leases[0].campaign, leases[0].limit_s
        self._lost_testbed: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def lease(self, testbed: str) -> Lease:
        """Return the lease of a testbed, by name."""
        return self._leases[testbed]

    def check(self) -> None:
        """Raise ConflictError if another process has taken over a testbed."""
        if self._lost_testbed is not None:
            raise ConflictError(
                f"another process took over testbed {self._lost_testbed}, after no heartbeat "
                f"from this one for {self._limit_s:.0f} s"
            )

    def superseded(self) -> bool:
        """Whether another process now runs the campaign."""
        mine = {lease.token for lease in self._leases.values()}
        return any(
            other.campaign == self._campaign and other.token not in mine
            for other in self._store.leases()
        )

    def close(self) -> None:
        """Stop renewing the leases, and give them back."""
        self._stop.set()
        self._thread.join()
        # Without the database the leases expire anyway, because this process stops renewing them.
        with suppress(StoreError):
            for lease in self._leases.values():
                self._store.give_back(lease)

    def _beat(self) -> None:
        while self._lost_testbed is None and self._is_due():
            try:
                for lease in self._leases.values():
                    if not self._store.beat(lease):
                        self._lost_testbed = lease.testbed
            except StoreError as problem:
                _log.warning("a lease could not be renewed: %s", problem)

    def _is_due(self) -> bool:
        """Wait until the next heartbeat is due; False when there is to be none any more.

        It is due at once when the clock was set forward, or the machine was suspended: by the clock
        of a local database, the last one is old then.
        """
        due = time.monotonic() + self._limit_s / _BEATS
        ahead = time.time() - time.monotonic()
        while (left := due - time.monotonic()) > 0.0:
            if self._stop.wait(min(left, _LOOK_S)):
                return False
            if abs(time.time() - time.monotonic() - ahead) > _SET_S:
                return True
        return not self._stop.is_set()


@contextmanager
def hold_testbeds(
    store: Store,
    campaign: str,
    testbeds: Sequence[str],
    limit_s: float,
    later: Later = REPEAT,
) -> Iterator[LeaseKeeper]:
    """Hold testbeds for a campaign, all or none. Raises ConflictError if another process uses one
    of them.

    ``limit_s``: seconds without a heartbeat after which another machine may take over; ``later``:
    what the caller is to do then, for the message.
    """
    message = "the run was cut off; another process has taken over the testbed"
    event = NewEvent(datetime.now(UTC), EventKind.BLOCK_VOID, message)
    leases = store.take_testbeds(campaign, testbeds, this_process(), limit_s, is_gone, event, later)
    holding = LeaseKeeper(store, leases)
    try:
        yield holding
    finally:
        holding.close()
