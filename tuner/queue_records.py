"""What the queue of runs has: runs that wait, and the processes that take them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tuner.model import Holder


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A campaign that waits for a worker, or that one has ``taken``, as a job of the queue.

    ``queue``: which workers may take it. ``testbeds``: their names; none when it has its own.
    ``id``: of the job. ``worker``: the one that has taken it, None when it is known to be gone.
    """

    id: int
    campaign: str
    queue: str
    testbeds: tuple[str, ...]
    taken: bool
    worker: int | None


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker. ``queues``: what it takes campaigns from; it runs ``concurrency`` at once at most.

    ``beat_age_s``: since its last sign of life, by the clock of the database; after ``limit_s`` it
    counts as dead.
    """

    id: int
    holder: Holder
    queues: tuple[str, ...]
    concurrency: int
    started: datetime
    beat_age_s: float
    limit_s: float
