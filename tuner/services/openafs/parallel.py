"""The same on every host of a part at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


def on_all(items: Sequence[Item], do: Callable[[Item], T]) -> list[T]:
    """What ``do`` returns for each item, in their order; raises the first failure when all have
    ended.
    """
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(do, items))
