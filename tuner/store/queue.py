"""The queue of campaigns waiting for a worker, and the registered workers.

The queue consists of Procrastinate's jobs: one for each campaign that is waiting (``todo``) or
taken by a worker (``doing``), deleted when its run has ended. A job is added or removed in one
transaction with an event of its campaign. Procrastinate's own functions decide which worker takes
which job, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from tuner.errors import ConflictError, NotFoundError, SpecError
from tuner.model import Event, Holder
from tuner.queue_records import QueuedRun, WorkerProcess
from tuner.states import OVER, EventKind, not_resumable
from tuner.store import queries, queue_tables, statements
from tuner.store.database import Database
from tuner.store.queue_tables import SCHEMA, look_there_first
from tuner.store.rows import NewEvent, record
from tuner.store.sqlite import SQLite
from tuner.store.store import Store

#: Adds a job to the queue, in the current transaction of a connection of the driver.
Defer = Callable[[Any], object]

#: The advisory lock held while looking for dead workers.
_TAKING_OVER = 0x6673_7475_6E66
#: While the server was away, nobody could send a heartbeat. A worker that died before it registered
#: has no limit; 300 s is assumed.
_SILENT = (
    "GREATEST(beat.last_heartbeat, pg_postmaster_start_time()) < "
    "clock_timestamp() - make_interval(secs => COALESCE(known.limit_s, 300))"
)
_JOBS = f"""
SELECT job.id, job.args->>'campaign' AS campaign, job.queue_name AS queue,
       ARRAY(SELECT jsonb_array_elements_text(job.args->'testbeds')) AS testbeds,
       job.status = 'doing' AS taken, job.worker_id AS worker,
       CASE WHEN job.scheduled_at > clock_timestamp() THEN job.scheduled_at END AS not_before,
       job.status = 'doing' AND (job.worker_id IS NULL OR {_SILENT}) AS stalled
  FROM {SCHEMA}.procrastinate_jobs AS job
  LEFT JOIN {SCHEMA}.procrastinate_workers AS beat ON beat.id = job.worker_id
  LEFT JOIN {SCHEMA}.worker AS known ON known.id = job.worker_id
 WHERE job.status IN ('todo', 'doing')
 ORDER BY job.id
"""
_WORKERS = f"""
SELECT known.*, GREATEST(0, EXTRACT(EPOCH FROM clock_timestamp() - last_heartbeat))::float8
       AS beat_age_s
  FROM {SCHEMA}.worker AS known JOIN {SCHEMA}.procrastinate_workers AS beat USING (id)
 ORDER BY id
"""
_REGISTER = f"""
INSERT INTO {SCHEMA}.worker (id, host, machine, pid, start_ticks, queues, concurrency, limit_s)
VALUES (:id, :host, :machine, :pid, :start_ticks, :queues, :concurrency, :limit_s)
ON CONFLICT (id) DO NOTHING
"""
_BEAT = f"""
UPDATE {SCHEMA}.procrastinate_workers SET last_heartbeat = clock_timestamp() WHERE id = :id
"""
_FORGET = f"""
DELETE FROM {SCHEMA}.procrastinate_workers WHERE id IN (
    SELECT beat.id FROM {SCHEMA}.procrastinate_workers AS beat
      LEFT JOIN {SCHEMA}.worker AS known USING (id) WHERE {_SILENT})
"""
_LOCK = f"""
SELECT id FROM {SCHEMA}.procrastinate_jobs
 WHERE status IN ('todo', 'doing') AND args->>'campaign' = :campaign FOR UPDATE
"""
_PUT_BACK = f"""
SELECT {SCHEMA}.procrastinate_retry_job_v2(id, NULL, NULL, NULL, NULL)
  FROM (SELECT id FROM {SCHEMA}.procrastinate_jobs
         WHERE id = :job AND status = 'doing' AND worker_id IS NOT DISTINCT FROM :worker
           FOR UPDATE) AS still
"""


class Queue:
    """The queue of one store; every method is one transaction. Raises what the store raises."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def create(cls, store: Store) -> Queue:
        """Return the queue of a store, created if missing. SpecError: the database cannot have
        one.
        """
        database = store._database
        if isinstance(database, SQLite):
            raise SpecError(
                "workers take campaigns from a shared PostgreSQL: give its address with --database "
                f"or FSTUNE_DATABASE_URL; {database.where} can only be used on this machine"
            )
        queue_tables.prepare(database)
        return cls(database)

    @classmethod
    def find(cls, store: Store) -> Queue | None:
        """Return the queue of a store, None if it has none."""
        database = store._database
        if isinstance(database, SQLite) or not database.read(queue_tables.here):
            return None
        return cls(database)

    def driver_arguments(self) -> tuple[str, dict[str, object]]:
        """Return what the driver needs to connect; see ``PostgreSQL.driver_arguments``."""
        from tuner.store.postgresql import PostgreSQL

        assert isinstance(self._database, PostgreSQL)
        return self._database.driver_arguments()

    # Campaigns

    def put(self, campaign: str, defer: Defer, event: NewEvent) -> Event:
        """Put a campaign that is not running on the queue, and delete the request that its last run
        did not carry out; ConflictError when it is queued or taken already.
        """

        def put(connection: Connection) -> Event:
            row = queries.campaign_row(connection, campaign, lock=True)
            if row.state in OVER:
                raise ConflictError(not_resumable(campaign, row.state))
            _refuse_queued(connection, campaign)
            look_there_first(connection)
            defer(connection.connection.driver_connection)
            # Somebody wants it to run: a worker's run would carry out the request.
            connection.execute(statements.DROP_REQUEST, {"of": campaign})
            return queries.add_event(connection, campaign, event)

        return self._database.write(put)

    def refuse_queued(self, campaign: str) -> None:
        """Raise ConflictError when a campaign is queued already, or taken by a worker."""
        self._database.read(lambda connection: _refuse_queued(connection, campaign))

    def withdraw(
        self,
        campaign: str,
        event: NewEvent,
        *,
        from_worker: bool = False,
        dead: Collection[int] = (),
    ) -> bool:
        """Remove a campaign from the queue, with ``from_worker`` even if a worker has taken it,
        otherwise only if that is dead; return whether it was removed. ``dead``: workers whose
        process is known to have ended.
        """

        def withdraw(connection: Connection) -> bool:
            queries.campaign_row(connection, campaign, lock=True)
            look_there_first(connection)
            # From here to the end of the transaction, no worker can take the job.
            connection.execute(text(_LOCK), {"campaign": campaign})
            for job in _jobs(connection, campaign):
                if job.taken and not (from_worker or job.stalled or job.worker in dead):
                    return False
                _remove(connection, job)
                queries.add_event(connection, campaign, event)
                return True
            return False

        return self._database.write(withdraw)

    def runs(self) -> list[QueuedRun]:
        """Return the waiting and taken campaigns, in the order in which workers take them."""
        return self._database.read(lambda c: [_run(row) for row in _jobs(c)])

    # Workers

    def register(
        self, worker: int, holder: Holder, queues: Collection[str], concurrency: int, limit_s: float
    ) -> None:
        """Store the identity of a worker. After ``limit_s`` without a heartbeat it counts as
        dead.
        """
        row: Mapping[str, object] = {
            "id": worker,
            "host": holder.host,
            "machine": holder.machine,
            "pid": holder.pid,
            "start_ticks": holder.start_ticks,
            "queues": list(queues),
            "concurrency": concurrency,
            "limit_s": limit_s,
        }
        self._database.write(lambda connection: connection.execute(text(_REGISTER), row))

    def workers(self) -> list[WorkerProcess]:
        """Return every worker that has not ended, including dead ones not detected yet."""
        return self._database.read(
            lambda connection: [
                record(WorkerProcess, row, holder=record(Holder, row), queues=tuple(row.queues))
                for row in connection.execute(text(_WORKERS))
            ]
        )

    def beat(self, worker: int) -> bool:
        """Record a heartbeat of a worker; return whether the worker is still registered."""
        row = {"id": worker}
        return self._database.write(lambda c: c.execute(text(_BEAT), row).rowcount == 1)

    def take_over(self, may: Callable[[], bool] = lambda: True) -> list[QueuedRun]:
        """Put the jobs of dead workers back on the queue and delete these workers; return the jobs
        as they were.

        Only one process does so at a time, so that each job goes back once. ``may``: whether to do
        so at all; called once the database answers, for which it may have been waited.
        """

        def take_over(connection: Connection) -> list[QueuedRun]:
            lost_runs: list[QueuedRun] = []
            if not may():
                return lost_runs
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_TAKING_OVER})"))
            lost = [row for row in _jobs(connection) if row.stalled]
            for row in sorted(lost, key=lambda row: str(row.campaign)):
                try:
                    queries.campaign_row(connection, row.campaign, lock=True)
                except NotFoundError:  # deleted by an earlier release, which left the job
                    look_there_first(connection)
                    _remove(connection, row)
                    continue
                if _requeue(connection, row):
                    who = f"worker {row.worker}" if row.worker else "the worker that had it"
                    message = f"{who} sent no heartbeat; back on the queue"
                    event = NewEvent(datetime.now(UTC), EventKind.WORKER_LOST, message)
                    queries.add_event(connection, row.campaign, event)
                    lost_runs.append(_run(row))
            connection.execute(text(_FORGET))
            return lost_runs

        return self._database.write(take_over)

    def requeue(self, worker: int, jobs: Collection[int]) -> None:
        """Put jobs that are assigned to a worker, but unknown to it, back on the queue."""

        def requeue(connection: Connection) -> None:
            for row in _jobs(connection):
                if row.id in jobs and row.worker == worker:
                    _requeue(connection, row)

        self._database.write(requeue)


def remove_job(connection: Connection, campaign: str) -> None:
    """Remove a campaign from the queue, if there is one, even if a worker has taken it."""
    if not queue_tables.here(connection):
        return
    for job in _jobs(connection, campaign):
        look_there_first(connection)
        _remove(connection, job)


def _refuse_queued(connection: Connection, campaign: str) -> None:
    for job in _jobs(connection, campaign):
        how = f"taken by worker {job.worker}" if job.taken else "queued"
        raise ConflictError(f"campaign {campaign} is already {how}; see 'fstune status'")


def _remove(connection: Connection, job: Row[Any]) -> None:
    end = "procrastinate_finish_job_v1(:job, 'failed', true)"
    connection.execute(text(f"SELECT {end}"), {"job": job.id})


def _run(row: Row[Any]) -> QueuedRun:
    return record(QueuedRun, row, testbeds=tuple(row.testbeds))


def _jobs(connection: Connection, campaign: str | None = None) -> list[Row[Any]]:
    rows = connection.execute(text(_JOBS)).all()
    return [row for row in rows if campaign is None or row.campaign == campaign]


def _requeue(connection: Connection, job: Row[Any]) -> bool:
    """Make a job wait again if the same worker still has it; return whether it did."""
    look_there_first(connection)
    return (
        connection.execute(text(_PUT_BACK), {"job": job.id, "worker": job.worker}).first()
        is not None
    )
