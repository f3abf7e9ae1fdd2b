"""Heartbeats to the leased hosts while a campaign runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

from tuner.errors import TestbedError
from tuner.hosts.hold import Hold

_LONGEST_BEAT_S = 30.0


class Heartbeats:
    """Sends heartbeats for holds until closed, each from a thread of its own, so that a host that
    does not answer cannot delay the others.
    """

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._beat, args=(hold,), daemon=True) for hold in holds
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop, and wait for heartbeats that are still being sent."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _beat(self, hold: Hold) -> None:
        while not self._stop.wait(min(_LONGEST_BEAT_S, hold.lease.after_s / 10.0)):
            # A lost connection also fails the campaign's own commands, and the next heartbeat may
            # get through; a lost lease is recorded by the hold itself.
            with suppress(TestbedError):
                hold.beat()
