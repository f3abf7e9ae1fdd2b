"""What every operation of the engine looks like; the operations are in ``names`` and ``data``.

An operation has three moments: the constructor prepares (off the clock), ``perform`` makes the
system calls of one step and as little else as can be (on the clock), ``check`` compares what was
found with what was planned (after the clock of the whole phase has stopped).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workloads.content import Content
from workloads.plan import Step


@dataclass(frozen=True)
class Job:
    """One process's part of a phase: the run directory, the steps, and what files hold."""

    root: str
    steps: Sequence[Step]
    content: Content
    record_bytes: int

    def path(self, index: int) -> str:
        """Return the full path of a step."""
        return f"{self.root}/{self.steps[index].path}"

    def paths(self) -> list[str]:
        """Return the full path of every step."""
        return [self.path(index) for index in range(len(self.steps))]


@dataclass(frozen=True)
class Checked:
    """How much a phase moved, and how much of it was compared with what was written."""

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
        """Do one step; raises OSError, or Mishap without an index."""

    def check(self) -> Checked:
        """Compare all steps; raises Mishap with the index of the step that is wrong."""
