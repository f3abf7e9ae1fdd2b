"""The interface of the engine's operations, which ``names``, ``writes`` and ``reads`` implement.

An operation has three parts: the constructor prepares (off the clock), ``perform`` makes the system
calls of one step and does as little else as possible (on the clock), ``check`` compares the results
with the plan (after the clock of the whole phase has stopped).
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from workloads.content import Content
from workloads.filesets import MAX_RECORD_BYTES
from workloads.image import EMPTY, Image


@dataclass(frozen=True)
class Step:
    """One operation on ``path`` (beneath the run directory), and what it must find or leave.

    ``image`` is the file's contents: after a write, or before any other operation (``becomes``:
    after a read-modify-write). ``start`` and ``end`` delimit the bytes concerned (for a stat: 0 and
    the length), transferred ``record_bytes`` at a time; ``sync`` requests fsync(2) before the
    close. ``target`` is a second path. ``entries`` are the sorted names that a listing must return,
    ``sizes`` their lengths (-1: a directory).
    """

    operation: str
    path: str
    target: str = ""
    image: Image = EMPTY
    becomes: Image = EMPTY
    start: int = 0
    end: int = 0
    record_bytes: int = MAX_RECORD_BYTES
    sync: bool = False
    entries: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


def own_user_s() -> float:
    """Return the processor seconds that this process has used outside of system calls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


class Stopwatch:
    """The clock of one process; time during which it is paused is not counted."""

    def __init__(self) -> None:
        self.paused_ns = 0
        self.paused_user_s = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock inside the ``with`` block."""
        start, user_s = time.monotonic_ns(), own_user_s()
        yield
        self.paused_ns += time.monotonic_ns() - start
        self.paused_user_s += own_user_s() - user_s


@dataclass(frozen=True)
class Job:
    """One process's steps of one operation in a phase, and the expected contents of files.

    ``held_bytes`` limits how much data is kept in memory between reading and comparing it.
    """

    root: str
    steps: Sequence[Step]
    content: Content
    held_bytes: int = MAX_RECORD_BYTES
    watch: Stopwatch = field(default_factory=Stopwatch)

    def path(self, index: int) -> str:
        """Return the full path of a step."""
        return f"{self.root}/{self.steps[index].path}"

    def paths(self) -> list[str]:
        return [self.path(index) for index in range(len(self.steps))]


@dataclass(frozen=True)
class CheckResult:
    """How much data was transferred, and how much of it was compared with what was written."""

    moved_bytes: int = 0
    verified_files: int = 0
    verified_bytes: int = 0


class StepError(Exception):
    """A step failed without a system error; kinds as in ``failure.Failure``."""

    def __init__(self, kind: str, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.index = index


class Operation(Protocol):
    """One operation over the steps of a job."""

    def __init__(self, job: Job) -> None:
        """Prepare everything that need not be done on the clock."""

    def perform(self, index: int) -> None:
        """Perform one step; raises OSError, or StepError (with an index if it is another's)."""

    def check(self) -> CheckResult:
        """Check all steps; raises StepError with the index of the failed step."""


class PathOperation:
    """Base class of operations that succeed or raise, with nothing to compare afterwards."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()

    def check(self) -> CheckResult:
        """Nothing to compare."""
        return CheckResult()
