"""Interrupts of the main thread, held off in the middle of a transaction or of a packet.

An interrupt while a connection begins or ends a transaction can leave it open; the next transaction
would then wait for locks that this process itself holds. The same applies to the locks of an SSH
connection.

An interrupt can also be lost: Python drops exceptions raised in a finalizer or during the import of
a compiled module. So it is remembered, and raised again at the next ``check``.

A patient interrupt lets the current work finish in code marked as worth it (``finishing``).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_depth = 0
_pending: str | None = None
_reason: str | None = None
_finishing = 0
_patient = False


def stops() -> list[signal.Signals]:
    """The signals that stop fstune: not SIGHUP where it is ignored, as nohup has it."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in _STOP if not (ignored and number is signal.SIGHUP)]


def interrupt(reason: str) -> None:
    """Raise KeyboardInterrupt, now or at the end of a section that must not be interrupted.

    For signal handlers, which run in the main thread.
    """
    global _reason, _patient, _pending
    _reason, _patient = reason, False
    if not _depth:
        raise KeyboardInterrupt(reason)
    _pending = reason


def interrupt_patiently(reason: str) -> None:
    """Like ``interrupt``, but let a ``finishing`` body end first: the next ``check`` after it then
    raises KeyboardInterrupt.
    """
    global _reason, _patient
    if _finishing:
        _reason, _patient = reason, True
    else:
        interrupt(reason)


def remember(reason: str) -> None:
    """Raise KeyboardInterrupt at the next ``check``, for an interrupt in the middle of cleaning up:
    what would start after it must not.
    """
    global _reason, _patient
    _reason, _patient = reason, False


def check() -> None:
    """Raise KeyboardInterrupt, in the main thread, when an interrupt was requested but got lost.

    For places where work may end; not for those that clean up.
    """
    if _patient and _finishing:
        return
    if _reason is not None and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt(_reason)


def is_asked() -> bool:
    """Whether an interrupt was requested, patient or not: nothing new should be started."""
    return _reason is not None


def forget() -> None:
    """Forget a requested interrupt, once what it was for has ended."""
    global _reason, _patient
    _reason, _patient = None, False


def is_finishing() -> bool:
    """Whether work is in progress that a patient interrupt lets finish."""
    return _finishing > 0


@contextmanager
def finishing() -> Iterator[None]:
    """Let the body end before ``interrupt_patiently`` takes effect; ``interrupt`` still does at
    once.
    """
    global _finishing
    if threading.current_thread() is not threading.main_thread():
        yield  # the thread that waits for this one decides
        return
    _finishing += 1
    try:
        yield
    finally:
        _finishing -= 1


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay ``interrupt`` until the end of the body, which should be short."""
    global _depth, _pending
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are only handled in the main thread
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth and _pending is not None:
            reason, _pending = _pending, None
            raise KeyboardInterrupt(reason)
