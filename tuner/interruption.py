"""Where the main thread may be interrupted: not in the middle of a transaction, or of a packet.

An interrupt that strikes while a connection begins or ends a transaction can leave it open; the
next one would then wait for locks that this process itself holds. It is the same with the locks of
an SSH connection.

An interrupt can also be lost: what strikes in a finalizer, or while a compiled module is imported,
is dropped there. So it is remembered, and raised again at the next ``check``.

A stop that is asked for patiently lets what is under way be finished where somebody said that this
is worth it (``finishing``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_depth = 0
_pending: str | None = None
_reason: str | None = None
_finishing = 0
_patient = False


def interrupt(reason: str) -> None:
    """Raise KeyboardInterrupt, now or at the end of what must not be interrupted.

    For signal handlers, which run in the main thread.
    """
    global _reason, _patient, _pending
    _reason, _patient = reason, False
    if not _depth:
        raise KeyboardInterrupt(reason)
    _pending = reason


def interrupt_patiently(reason: str) -> None:
    """As ``interrupt``, but what is being finished may end first: the next ``check`` after it
    raises then.
    """
    global _reason, _patient
    if _finishing:
        _reason, _patient = reason, True
    else:
        interrupt(reason)


def check() -> None:
    """Raise KeyboardInterrupt, in the main thread, when one was asked for and did not get through.

    For places where work may end; not for those where it is cleaned up after.
    """
    if _patient and _finishing:
        return
    if _reason is not None and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt(_reason)


def is_asked() -> bool:
    """Whether an interrupt was asked for, patiently or not: nothing new should begin."""
    return _reason is not None


def forget() -> None:
    """Whoever was to be interrupted has ended."""
    global _reason, _patient
    _reason, _patient = None, False


def is_finishing() -> bool:
    """Whether something is under way that a patient interrupt lets finish."""
    return _finishing > 0


@contextmanager
def finishing() -> Iterator[None]:
    """Let the body end before ``interrupt_patiently`` strikes. ``interrupt`` still does at once."""
    global _finishing
    if threading.current_thread() is not threading.main_thread():
        yield  # whoever waits for that thread decides
        return
    _finishing += 1
    try:
        yield
    finally:
        _finishing -= 1


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold ``interrupt`` off, which then strikes at the end. Keep it short."""
    global _depth, _pending
    if threading.current_thread() is not threading.main_thread():
        yield  # no signal is handled there
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth and _pending is not None:
            reason, _pending = _pending, None
            raise KeyboardInterrupt(reason)
