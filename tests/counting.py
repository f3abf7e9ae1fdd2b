"""Counting calls, where what is done must not grow with what there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Callable[[], int]:
    """Return a function that returns how often this attribute of an object or class has been called
    since its own last call.
    """
    count, function = 0, getattr(owner, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return function(*arguments, **options)

    def since() -> int:
        nonlocal count
        before, count = count, 0
        return before

    monkeypatch.setattr(owner, name, counted)
    return since
