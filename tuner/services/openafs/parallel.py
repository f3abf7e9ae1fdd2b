"""Parallel execution on all hosts of a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


def on_all(items: Sequence[Item], do: Callable[[Item], T]) -> list[T]:
    """Call ``do`` for all items in parallel; returns the results in order.

    Raises the first failure, after all calls have ended.
    """
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(do, items))
