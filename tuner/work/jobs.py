"""How fstune uses Procrastinate: its one task, retries, and a connection that waits for the server.

The only module that imports Procrastinate. It is slow to import, so only code that needs it imports
this one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from tuner.errors import StoreError
from tuner.store.queue import Defer, Queue
from tuner.store.queue_tables import SCHEMA

Result = TypeVar("Result")

#: The name of the task, in every job. Its arguments: ``campaign``, ``testbeds`` (their names) and
#: ``override_pilot``.
TASK = "campaign"
#: How long to wait for a lost database: it, or its host, may be restarting.
PATIENCE_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
#: How long the pool tries to replace a lost connection, at doubling intervals, before it begins
#: anew for the next query; and how long a query waits for a connection before it asks again.
_POOL_PATIENCE_S = 10.0
#: A query that lasted this long had a connection at first: listening lasts for days.
_LONG_S = 60.0
#: SQLSTATEs of a server that is away: no connection, shutting down, too many connections.
_AWAY = ("08", "57P", "53300")
#: SQLSTATE: a change on a standby.
_READ_ONLY = "25006"

_log = logging.getLogger(__name__)

#: The condition for ending a job: it still belongs to this worker and was not taken over.
_STILL_MINE = """
FROM (SELECT id FROM procrastinate_jobs
       WHERE id = %(job)s AND worker_id = %(worker)s AND status = 'doing' FOR UPDATE) AS mine
"""
_FINISH = f"SELECT procrastinate_finish_job_v1(id, %(status)s, %(delete)s) {_STILL_MINE}"
_RETRY = f"SELECT procrastinate_retry_job_v2(id, %(at)s, NULL, NULL, NULL) {_STILL_MINE}"


class Requeue(Exception):
    """Raised to put the job back on the queue: its campaign is to be resumed later."""

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.after_s = after_s


class _RetryRequeues(BaseRetryStrategy):
    """Retries only jobs that were requeued."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if not isinstance(exception, Requeue):
            return None
        return RetryDecision(retry_in={"milliseconds": round(1000 * exception.after_s)})


class _Patient(PsycopgConnector):
    """A connector that waits for a server that is away, as the store does. Once it ``has_written``,
    it also waits for a server that can only be read to become the primary.
    """

    has_written = False

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        await self._persistently(
            lambda: super(_Patient, self).execute_query_async(query, **arguments)
        )

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        return await self._persistently(
            lambda: super(_Patient, self).execute_query_one_async(query, **arguments)
        )

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        return await self._persistently(
            lambda: super(_Patient, self).execute_query_all_async(query, **arguments)
        )

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
        listened = list(channels)
        await self._persistently(
            lambda: super(_Patient, self).listen_notify(on_notification, listened)
        )

    async def _persistently(self, query: Callable[[], Awaitable[Result]]) -> Result:
        """Run a query, and repeat it for as long as the server may come back."""
        away_since: float | None = None
        pause_s = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                return await query()
            except ConnectorException as error:
                now = time.monotonic()
                if away_since is None or now - began > _LONG_S:
                    away_since, pause_s = now, _FIRST_PAUSE_S  # connected until now
                state = getattr(error.__cause__, "sqlstate", None) or "08"
                read_only = self.has_written and state == _READ_ONLY
                may_return = read_only or state.startswith(_AWAY)
                if not may_return or now - away_since > PATIENCE_S:
                    raise StoreError(
                        f"the queue cannot be used: {error.__cause__ or error}"
                    ) from error
                what = "can only be read" if read_only else "does not respond"
                _log.warning("the queue %s; waiting up to %.0f s", what, PATIENCE_S)
            if read_only:
                await self.pool.drain()  # another server may have become the primary
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Jobs(JobManager):
    """Ends only jobs that still belong to this worker; reports its number and its heartbeats."""

    def __init__(
        self,
        connector: _Patient,
        registered: Callable[[int], Awaitable[None]],
        on_beat: Callable[[], None],
    ) -> None:
        super().__init__(connector)
        self._patient, self._registered, self._on_beat = connector, registered, on_beat

    async def register_worker(self) -> int:
        worker = await super().register_worker()
        self._patient.has_written = True
        await self._registered(worker)
        return worker

    async def update_heartbeat(self, worker_id: int) -> None:
        await super().update_heartbeat(worker_id)
        self._on_beat()

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        await self.connector.execute_query_async(
            query=_FINISH, job=job.id, worker=job.worker_id, status=status.value, delete=delete_job
        )

    async def retry_job(self, job: Job, retry_at: Any = None, *_: Any, **__: Any) -> None:
        await self.connector.execute_query_async(
            query=_RETRY, job=job.id, worker=job.worker_id, at=retry_at
        )


def app_of(
    queue: Queue,
    task: Callable[..., Awaitable[None]],
    registered: Callable[[int], Awaitable[None]],
    on_beat: Callable[[], None],
) -> App:
    """Return the Procrastinate app of a queue; ``task`` gets each job's context and arguments."""
    address, arguments = queue.driver_arguments()
    connector = _Patient(
        conninfo=address,
        kwargs=arguments,
        configure=_look_there_first,
        min_size=1,
        max_size=4,
        timeout=_POOL_PATIENCE_S,
        reconnect_timeout=_POOL_PATIENCE_S,
    )
    app = App(connector=connector)
    app.job_manager = _Jobs(connector, registered, on_beat)
    app.task(name=TASK, retry=_RetryRequeues(), pass_context=True)(task)
    return app


async def _look_there_first(connection: Any) -> None:
    await connection.execute(f"SET search_path TO {SCHEMA}")
    await connection.commit()


def deferring(
    campaign: str, queue: str, testbeds: Sequence[str], *, override_pilot: bool = False
) -> Defer:
    """Return a function that adds the job of a campaign to a queue. Procrastinate locks only the
    first of its ``testbeds``, for one job at a time; whether the others are free, and whose turn it
    is there, is checked when the job is taken.
    """
    app = App(connector=PsycopgConnector())

    def defer(connection: Any) -> None:
        job = app.configure_task(
            TASK,
            queue=queue,
            lock=testbeds[0] if testbeds else None,
            queueing_lock=campaign,
            connection=connection,
        )
        try:
            job.defer(campaign=campaign, testbeds=list(testbeds), override_pilot=override_pilot)
        except ConnectorException as error:
            raise StoreError(f"the queue cannot be used: {error.__cause__ or error}") from error

    return defer
