"""Records of the queue: queued runs, and the worker processes that take them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tuner.model import Holder


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A campaign that waits for a worker, or was ``taken`` by one, as a job of the queue.

    ``queue``: decides which workers may take it. ``testbeds``: their names; none for a testbed of
    its own. ``id``: of the job. ``worker``: the one that has taken it, None when it is known to be
    gone. ``not_before``: no worker takes it before this time; None if any may at once. ``stalled``:
    the worker that has taken it has sent no heartbeat for too long.
    """

    id: int
    campaign: str
    queue: str
    testbeds: tuple[str, ...]
    taken: bool
    worker: int | None
    not_before: datetime | None = None
    stalled: bool = False


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker. ``queues``: the ones it takes campaigns from, running up to ``concurrency`` at
    once.

    ``beat_age_s``: the time since its last heartbeat, by the clock of the database; after
    ``limit_s`` it counts as dead.
    """

    id: int
    holder: Holder
    queues: tuple[str, ...]
    concurrency: int
    started: datetime
    beat_age_s: float
    limit_s: float
