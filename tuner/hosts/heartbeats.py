"""Signs of life to the hosts that are held, for as long as a campaign runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

from tuner.errors import TestbedError
from tuner.hosts.hold import Hold

_LONGEST_BEAT_S = 30.0


class Heartbeats:
    """Keeps holds alive until it is closed, each from a thread of its own: a host that does not
    answer must not let the others wait.
    """

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._beat, args=(hold,), daemon=True) for hold in holds
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop; returns when the last beats have ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _beat(self, hold: Hold) -> None:
        while not self._stop.wait(min(_LONGEST_BEAT_S, hold.after_s / 10.0)):
            # A lost connection shows in the campaign's own commands, and the next beat may get
            # through; a lost hold is noted by the hold itself.
            with suppress(TestbedError):
                hold.beat()
