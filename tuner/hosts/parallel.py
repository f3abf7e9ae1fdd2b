"""Parallel execution on several hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tuner.interruption import uninterrupted

T = TypeVar("T")
Item = TypeVar("Item")


def on_all(items: Sequence[Item], do: Callable[[Item], T]) -> list[T]:
    """Call ``do`` for all items in parallel; returns the results in order.

    Raises the first failure after all calls have ended: none is left out because another failed.
    A stop signal waits for their end too, since a call left behind could change a host while that
    is being put back.
    """
    with uninterrupted(), ThreadPoolExecutor(max(1, len(items))) as pool:
        calls = [pool.submit(do, item) for item in items]
    return [call.result() for call in calls]
