"""Stop signals of a campaign, and the section during which they are held off."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tuner.interruption import (
    forget,
    interrupt,
    interrupt_patiently,
    is_finishing,
    remember,
    stops,
)

#: Signals within this time (s) count as one request: a closed terminal sends several.
_SAME_REQUEST_S = 1.0

#: Replies to a stop signal; the first is that of a campaign, which can be resumed.
STOPPING = (
    "stopping: a block in progress is measured again when the campaign is resumed; the testbed "
    "is restored, which takes seconds, on real hosts up to a few minutes"
)
FINISHING = "finishing the current run, then the testbed is restored; Ctrl-C again to stop now"


@contextmanager
def stop_signals(
    say: Callable[[str], None] = lambda message: None, stopping_message: str = STOPPING
) -> Iterator[None]:
    """Turn stop signals into KeyboardInterrupt, so that one path cleans up for all of them.

    The first Ctrl-C lets a workload run in progress finish; a second one, and every other stop
    signal, does not. ``say``: called for each in the signal handler, so it must not wait for a lock
    that the main thread may hold. ``stopping_message``: the reply to one that cuts work off.
    """
    last_s, is_patient, stopping = float("-inf"), False, False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last_s, is_patient, stopping
        now_s = time.monotonic()
        if now_s - last_s < _SAME_REQUEST_S and (stopping or number == signal.SIGINT):
            return  # the same request: it must not interrupt the handling of the first one
        last_s = now_s
        name = signal.Signals(number).name
        if not is_patient and number == signal.SIGINT and is_finishing():
            is_patient = True
            say(f"{name}: {FINISHING}")
            interrupt_patiently(name)
            return
        if not stopping:
            say(f"{name}: {stopping_message}")
        is_patient = stopping = True
        interrupt(name)

    with _handling(stop), _lost_ones_unprinted():
        try:
            yield
        finally:
            forget()


@contextmanager
def holding_off_stops(
    say: Callable[[str], None], first: str = "restoring the testbed first, which can take minutes"
) -> Iterator[None]:
    """Hold off stop signals while the testbed is restored, or what comes ``first`` instead; ``say``
    gets a message for each. They take effect at the next ``check`` after it.
    """

    def hold_off(number: int, frame: FrameType | None) -> None:
        remember(signal.Signals(number).name)
        say(f"{signal.Signals(number).name}: {first}")

    with _handling(hold_off):
        yield


@contextmanager
def _lost_ones_unprinted() -> Iterator[None]:
    """Print nothing of an interrupt that Python drops in a finalizer: it is raised again later."""
    before = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals and may set their handlers
        return
    before = {number: signal.signal(number, handler) for number in stops()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
