"""Parallel execution on several hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tuner.errors import TestbedError, TunerError, of_kind
from tuner.interruption import uninterrupted

T = TypeVar("T")
Item = TypeVar("Item")


def on_all(items: Sequence[Item], do: Callable[[Item], T]) -> list[T]:
    """Call ``do`` for all items in parallel; returns the results in order.

    Raises the first failure after all calls have ended: none is left out because another failed.
    A stop signal waits for their end too, since a call left behind could change a host while that
    is being restored.
    """
    with uninterrupted(), ThreadPoolExecutor(max(1, len(items))) as pool:
        calls = [pool.submit(do, item) for item in items]
    return [call.result() for call in calls]


def on_each(items: Sequence[Item], do: Callable[[Item], T], names: Sequence[str] = ()) -> list[T]:
    """Like ``on_all``, but raises several failures as one error: of their kind if that is the same,
    or else TestbedError. ``names``: of the items, for messages.
    """

    def run(item: Item) -> T | TunerError:
        try:
            return do(item)
        except TunerError as problem:
            return problem

    results = on_all(items, run)
    failures = [
        (f"{names[number]}: " if names else "", result)
        for number, result in enumerate(results)
        if isinstance(result, TunerError)
    ]
    if len(failures) == 1:
        raise failures[0][1]
    if failures:
        message = "; ".join(f"{name}{problem}" for name, problem in failures)
        slugs = {problem.slug for _, problem in failures}
        kind = of_kind(slugs.pop(), message) if len(slugs) == 1 else None
        raise (kind or TestbedError(message)) from failures[0][1]
    return [result for result in results if not isinstance(result, TunerError)]
