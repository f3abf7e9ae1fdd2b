"""How a study runs its campaigns: two at once, those of a range of seeds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

Result = TypeVar("Result")


def two_at_once(run: Callable[..., Result], *arguments: Iterable[Any]) -> Iterator[Result]:
    """Yield what ``run`` returns for each of the arguments, as ``map`` does; in two processes."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        yield from workers.map(run, *arguments)


def seeds(program: str, description: str | None) -> range:
    """Return the seeds that the command line names by the first and the last."""
    parser = argparse.ArgumentParser(f"python -m {program}", description=description)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("first", type=int, metavar="FIRST_SEED")
    parser.add_argument("last", type=int, metavar="LAST_SEED")
    words = parser.parse_args()
    return range(words.first, words.last + 1)
