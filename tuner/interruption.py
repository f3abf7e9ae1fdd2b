"""Where the main thread may be interrupted: not in the middle of a transaction.

An interrupt that strikes while a connection begins or ends a transaction can leave it open; the
next one would then wait for locks that this process itself holds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_depth = 0
_pending: str | None = None


def interrupt(reason: str) -> None:
    """Raise KeyboardInterrupt, now or at the end of what must not be interrupted.

    For signal handlers, which run in the main thread.
    """
    global _pending
    if not _depth:
        raise KeyboardInterrupt(reason)
    _pending = reason


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
