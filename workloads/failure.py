"""The record of a failed workload, the same in workers, on pipes and in the JSON document."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """Why a run is void.

    ``kind``: os-error, short-read, short-write, mismatch (data, size, names or existence not as
    planned), worker-died, wall-clock-limit, interrupted, no-space (too little before the start),
    run-directory (absent, present, not ours or too deep), start-gate (not released in time),
    empty-phase (a timed phase without an operation), engine-error (a fault in the engine itself).
    ``errno`` is the system's error number, None if there is none.
    """

    kind: str
    operation: str
    path: str
    errno: int | None
    message: str


class WorkloadFailure(Exception):
    """The run is void; ``failure`` has the reason."""

    def __init__(self, failure: Failure) -> None:
        where = f"{failure.operation} {failure.path}".strip()
        super().__init__(f"{failure.kind}: {where}: {failure.message}")
        self.failure = failure


def os_failure(error: OSError, operation: str, path: str, kind: str = "os-error") -> Failure:
    """Return the record of a system error."""
    message = os.strerror(error.errno) if error.errno is not None else str(error)
    return Failure(kind, operation, path, error.errno, message)
