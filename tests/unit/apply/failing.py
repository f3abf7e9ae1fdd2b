"""Methods that fail when they are called once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class Broken(BaseException):
    """The end of a process, as far as that can be had within one: nothing catches it."""


@contextmanager
def breaking(
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    method: str,
    do: Callable[[], None],
    *,
    after: int = 0,
) -> Iterator[None]:
    """Do something in place of a method's first call but ``after``, and of all that follow."""
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
