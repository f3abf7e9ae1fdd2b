"""Methods that fail from a given call on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class Broken(BaseException):
    """Simulates the death of a process: nothing catches it."""


@contextmanager
def breaking(
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    method: str,
    do: Callable[[], None],
    *,
    after: int = 0,
) -> Iterator[None]:
    """Call ``do`` before every call of a method, except the first ``after`` calls."""
    usual = getattr(kind, method)
    calls = 0

    def replaced(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            do()
        return usual(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(kind, method, replaced)
        yield
