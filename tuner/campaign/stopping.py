"""Signals that ask a campaign to stop, and the stretch in which it must not be disturbed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tuner.interruption import forget, interrupt

_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Signals so soon after one another are one request: a closed terminal sends several.
_SAME_REQUEST_S = 1.0

#: What the first signal is answered with.
STOPPING = (
    "stopping: the current run is cut off and measured again on resume; the testbed is put back "
    "first, which takes seconds"
)

Handler = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def stop_signals(say: Callable[[str], None] = lambda said: None) -> Iterator[None]:
    """Turn stop signals into KeyboardInterrupt, so that one path cleans up for all of them.

    ``say``: is told of the first at once, in the signal handler: it must not wait for a lock that
    the main thread may hold.
    """
    last_s = float("-inf")

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last_s
        before_s, last_s = last_s, time.monotonic()
        if last_s - before_s < _SAME_REQUEST_S:
            return  # it must not interrupt the answer to the one before
        if before_s == float("-inf"):
            say(f"{signal.Signals(number).name}: {STOPPING}")
        interrupt(signal.Signals(number).name)

    with _handling(stop):
        try:
            yield
        finally:
            forget()


@contextmanager
def undisturbed(say: Callable[[str], None]) -> Iterator[None]:
    """Hold stop signals off while the testbed is put back; ``say`` is told of each."""

    def hold_off(number: int, frame: FrameType | None) -> None:
        say(f"{signal.Signals(number).name}: putting the testbed back first; this takes seconds")

    with _handling(hold_off):
        yield


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals, and only it may say how
        return
    before = {number: signal.signal(number, handler) for number in _STOP}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
