"""Linear algebra in one thread.

Several threads invert small matrices many times more slowly, since they wait for each other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which numpy and scipy use one thread."""
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@cache
def _libraries() -> Any:
    """Return the libraries that both load. It takes 2 ms to find them: a decision needs them often,
    and they stay the same once both are loaded.
    """
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
