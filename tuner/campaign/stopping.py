"""Signals that ask a campaign to stop, and the stretch in which it must not be disturbed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def stop_signals() -> Iterator[None]:
    """Turn each stop signal into KeyboardInterrupt, so that one path cleans up for all of them."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    with _handling(stop):
        yield


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
