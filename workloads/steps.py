"""What every operation of the engine looks like; they are in ``names``, ``attributes``, ``writes``
and ``reads``.

An operation has three moments: the constructor prepares (off the clock), ``perform`` makes the
system calls of one step and as little else as can be (on the clock), ``check`` compares what was
found with what was planned (after the clock of the whole phase has stopped).
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

    ``image`` is what the file holds: after a write, before everything else (``becomes``: after a
    read-modify-write). ``start`` and ``end`` are the bytes concerned (of a stat: 0 and the length),
    moved ``record_bytes`` at a time; ``sync`` asks for fsync(2) before the close. ``target`` is a
    second path. ``entries`` are the sorted names that a listing must give, ``sizes`` their lengths
    (-1: a directory).
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
    """Return the processor seconds of this process outside of system calls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


class Stopwatch:
    """The clock of one process; what happens while it is paused is in nobody's time."""

    def __init__(self) -> None:
        self.paused_ns = 0
        self.paused_user_s = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock meanwhile."""
        start, user_s = time.monotonic_ns(), own_user_s()
        yield
        self.paused_ns += time.monotonic_ns() - start
        self.paused_user_s += own_user_s() - user_s


@dataclass(frozen=True)
class Job:
    """One process's steps of one operation in a phase, and what files hold.

    ``held_bytes`` bounds the data read that is kept to be compared.
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
        """Return the full path of every step."""
        return [self.path(index) for index in range(len(self.steps))]


@dataclass(frozen=True)
class Checked:
    """How much was moved, and how much of it was compared with what was written."""

    moved_bytes: int = 0
    verified_files: int = 0
    verified_bytes: int = 0


class Mishap(Exception):
    """A step went wrong without the system naming an error; kinds as in ``failure.Failure``."""

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
        """Do one step; raises OSError, or Mishap (with an index when it is about another step)."""

    def check(self) -> Checked:
        """Compare all steps; raises Mishap with the index of the step that is wrong."""
