"""A worker: takes campaigns from the queue and runs each in a process of its own.

It may die at any moment. Its processes then pause their campaigns; other workers notice that it
sends no heartbeats and take over. Only the lease in the database decides which process may use a
testbed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

from procrastinate import JobContext
from procrastinate.jobs import Job

from tuner.errors import ConflictError, NotFoundError, StoreError
from tuner.holders import this_process
from tuner.interruption import stops
from tuner.model import Campaign, Event
from tuner.report.log import LogForm
from tuner.run.steering import in_use
from tuner.states import CampaignState, EventKind
from tuner.store import NewEvent, Store
from tuner.store.pages import Pages
from tuner.store.queue import Queue
from tuner.text import counted
from tuner.work.ending import (
    DECISIVE,
    DIED,
    TAKEN,
    JobEnd,
    RunEnd,
    continues_at,
    end_without_run,
    job_end,
)
from tuner.work.jobs import Requeue, app_of
from tuner.work.metrics import WorkerMetrics
from tuner.work.runs import Run, run_of
from tuner.work.turns import is_ahead

#: The number of heartbeats within the time after which a worker counts as dead.
_BEATS = 6
#: After a pause of this many heartbeats the database, or this worker, was away.
_GAP = 2
#: There is no notification for a job that went back on the queue or whose testbed became free, so
#: the queue is polled.
_LOOK_S = 2.0
_LONGEST_WAIT_S = 15.0
#: A campaign that may be taken within this time keeps its turn: its testbed was in use. Clocks may
#: differ, so it is longer than the longest wait.
_SOON_S = 2 * _LONGEST_WAIT_S
#: How long a campaign waits that a worker failed to run. Others need not wait for it.
_FAILED_S = 60.0
#: Disables Procrastinate's own check for dead workers: each worker has its own limit, which
#: ``Queue.take_over`` uses.
_NEVER_S = 1e9

_log = logging.getLogger(__name__)

#: Logs an event: a level, a kind, and particulars.
Say = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Orders:
    """The settings of a worker. ``queues``: where it takes campaigns from, up to ``concurrency`` at
    once.

    ``limit_s``: how long without a heartbeat before it counts as dead. ``log``: the log format
    of its campaigns.
    """

    state_directory: Path
    database: str
    queues: tuple[str, ...]
    concurrency: int
    limit_s: float
    log: LogForm


class Worker:
    """A worker; ``work`` may be called once."""

    def __init__(
        self, store: Store, queue: Queue, orders: Orders, metrics: WorkerMetrics, say: Say
    ) -> None:
        self._store = store
        self._queue = queue
        self._orders = orders
        self._metrics = metrics
        self._say = say
        self._id = 0
        self._stopping = ""
        self._dead = False
        self._working: asyncio.Task[None] | None = None
        self._jobs: set[int] = set()
        self._children: set[asyncio.subprocess.Process] = set()
        self._unknown: set[int] = set()
        self._beat_s = self._steady_s = -math.inf

    async def work(self) -> None:
        """Take campaigns and run them until a stop signal comes.

        Raises StoreError when the database does not come back, and ConflictError when other workers
        concluded that this one was dead.
        """
        app = app_of(self._queue, self._take, self._registered, self._metrics.note_beat)
        loop = asyncio.get_running_loop()
        pause_s = self._pause_s
        async with app.open_async():
            self._working = asyncio.create_task(
                app.run_worker_async(
                    queues=list(self._orders.queues),
                    concurrency=self._orders.concurrency,
                    install_signal_handlers=False,
                    delete_jobs="always",
                    fetch_job_polling_interval=min(_LOOK_S, pause_s),
                    update_heartbeat_interval=pause_s,
                    stalled_worker_timeout=_NEVER_S,
                )
            )
            handled = stops()
            for number in handled:
                loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
            looking = asyncio.create_task(self._look_after())
            try:
                with suppress(asyncio.CancelledError):
                    await self._working
            finally:
                for number in handled:
                    loop.remove_signal_handler(number)
                self._end_children()
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
        if self._dead:
            raise ConflictError(
                "other workers concluded that this one was dead, because it sent no heartbeat for "
                f"{self._orders.limit_s:.0f} s; they continue its campaigns. Start it again"
            )
        if not self._stopping:
            raise StoreError("the queue cannot be used; see the log. Start the worker again")

    async def _registered(self, worker: int) -> None:
        orders = self._orders
        self._id = worker
        arguments = worker, this_process(), orders.queues, orders.concurrency, orders.limit_s
        await asyncio.to_thread(self._queue.register, *arguments)
        self._metrics.note_beat()
        self._say("info", "ready", worker=worker, queues=", ".join(orders.queues))

    # Stopping

    def _stop(self, reason: str) -> None:
        if self._stopping:
            self._say("info", "stopping", message="the testbeds are restored first")
            return
        self._stopping = reason
        count = len(self._children)
        campaigns = f"{counted(count, 'campaign')} will pause at the next safe point"
        todo = f"; {campaigns}, then wait for a worker"
        self._say("info", "stopping", message=f"{reason}{todo if count else ''}")
        self._end_children()
        if self._working is not None:
            self._working.cancel()

    def _end_children(self) -> None:
        for child in self._children:
            with suppress(ProcessLookupError):
                child.terminate()

    # Upkeep

    async def _look_after(self) -> None:
        """Give heartbeats until the very end, take over from dead workers, and requeue lost
        jobs.
        """
        while True:
            await asyncio.sleep(self._pause_s)
            if not self._id:
                continue
            try:
                await self._look()
            except StoreError as problem:
                self._say("warning", "queue", message=str(problem))
            except Exception as problem:  # without its upkeep, a worker would look healthy
                _log.exception("a bug in fstune")
                self._say("error", "queue", message=str(problem))

    async def _look(self) -> None:
        # Procrastinate sends heartbeats, too, but over connections that may return later than ours.
        if not await asyncio.to_thread(self._queue.beat, self._id):
            if not self._stopping:
                self._dead = True
                self._stop("taken for dead")
            return
        self._note_beat()
        for lost in await asyncio.to_thread(self._queue.take_over, self._may_take_over):
            self._metrics.taken_over.inc()
            self._say("warning", "taken-over", campaign=lost.campaign, from_worker=lost.worker)
        runs = await asyncio.to_thread(self._queue.runs)
        # The answer to a request for a job may get lost, and nobody would ever run that job.
        unknown = {run.id for run in runs if run.worker == self._id and run.taken} - self._jobs
        if mislaid := unknown & self._unknown:
            await asyncio.to_thread(self._queue.requeue, self._id, mislaid)
        self._unknown = unknown - mislaid

    def _note_beat(self) -> None:
        now_s = monotonic()
        if now_s - self._beat_s > _GAP * self._pause_s:
            self._steady_s = now_s
        self._beat_s = now_s
        self._metrics.note_beat()

    def _may_take_over(self) -> bool:
        """Whether the database has answered for so long without a gap that every worker that is
        alive has sent a heartbeat.
        """
        answers_now = monotonic() - self._beat_s <= _GAP * self._pause_s
        return answers_now and self._beat_s - self._steady_s >= self._orders.limit_s

    @property
    def _pause_s(self) -> float:
        return self._orders.limit_s / _BEATS

    # Campaigns

    async def _take(
        self, context: JobContext, campaign: str, testbeds: list[str], override_pilot: bool
    ) -> None:
        """Run the campaign of a job to its end. Requeue: it is to be resumed later.

        No other failure is a reason to drop a campaign: it stays queued, too.
        """
        try:
            await self._take_up(context.job, campaign, testbeds, override_pilot)
        except NotFoundError:
            self._say("warning", "gone", campaign=campaign)
        except Requeue:
            raise
        except Exception as problem:
            if not isinstance(problem, (StoreError, OSError)):
                _log.exception("a bug in fstune")
            self._say("error", "worker-failed", campaign=campaign, message=str(problem))
            raise Requeue("the worker failed", _FAILED_S) from problem

    async def _take_up(
        self, job: Job, campaign: str, testbeds: list[str], override_pilot: bool
    ) -> None:
        assert job.id is not None
        self._jobs.add(job.id)
        try:
            end = await asyncio.to_thread(self._end_without_run, campaign)
            if end is None:
                if await asyncio.to_thread(in_use, self._store, campaign, testbeds):
                    raise Requeue("its testbed is in use", self._wait_s())
                waits = await asyncio.to_thread(self._is_ahead, job.id)
                if waits:
                    raise Requeue("an earlier campaign needs its testbed", self._wait_s())
                end = await self._run(campaign, testbeds, override_pilot)
        finally:
            self._jobs.discard(job.id)
        self._metrics.count_end(end)
        self._say("info", "run-ended", campaign=campaign, end=str(end))
        if end is JobEnd.DIED:
            raise Requeue("its process died")
        if end is JobEnd.WAITING:
            raise Requeue("its testbed must not be used now", await self._closed_s(campaign))
        if end is JobEnd.PUT_BACK:
            raise Requeue("it continues later", 0.0 if self._stopping else self._wait_s())

    def _is_ahead(self, job: int) -> bool:
        served = {queue for worker in self._queue.workers() for queue in worker.queues}
        soon = datetime.now(UTC) + timedelta(seconds=_SOON_S)
        return is_ahead(self._queue.runs(), job, served, soon)

    def _end_without_run(self, campaign: str) -> JobEnd | None:
        return end_without_run(self._store.campaign(campaign), self._decisive_events(campaign))

    def _decisive_events(self, campaign: str) -> list[Event]:
        """Return the events that affect an outcome: few, however long the campaign has run."""
        pages = Pages(self._store)
        # In this order, nothing decisive is missed that is stored meanwhile.
        events = pages.events(campaign, 0, last=1)
        if events:
            complete = pages.block_complete_before(campaign, events[-1].number)
            events += [] if complete is None else [complete]
        events += self._store.events(campaign, kinds=DECISIVE)
        by_number = {event.number: event for event in events}
        return [by_number[number] for number in sorted(by_number)]

    async def _run(self, campaign: str, testbeds: list[str], override_pilot: bool) -> JobEnd:
        run = run_of(
            campaign,
            self._orders.state_directory,
            self._orders.database,
            override_pilot=override_pilot,
            leashed=True,
            options=("--log", str(self._orders.log)),
        )
        message = f"worker {self._id} on {this_process().host} took the campaign from the queue"
        taken = NewEvent(datetime.now(UTC), TAKEN, message, {"worker": self._id})
        await asyncio.to_thread(self._store.add_event, campaign, taken)
        about = {"campaign": campaign, "testbeds": ", ".join(testbeds)}
        self._say("info", "run-begins", **about, log=str(run.log))
        with run.output() as out:
            child = await asyncio.create_subprocess_exec(
                *run.command,
                env=run.environment,
                cwd=run.directory,
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C in a terminal only reaches the worker, which passes it on.
                start_new_session=True,
            )
        self._children.add(child)
        self._metrics.running.set(len(self._children))
        try:
            if self._stopping:
                self._end_children()
            status = await child.wait()
        finally:
            self._children.discard(child)
            self._metrics.running.set(len(self._children))
        return await asyncio.to_thread(self._settle_end, campaign, testbeds, run, status)

    def _settle_end(self, campaign: str, testbeds: list[str], run: Run, status: int) -> JobEnd:
        """Determine and record the outcome of a campaign whose process has ended."""
        record = self._store.campaign(campaign)
        events = self._decisive_events(campaign)
        used = in_use(self._store, campaign, testbeds)
        end = job_end(RunEnd(record, events, status, used, bool(self._stopping)))
        if end is JobEnd.REFUSED:
            self._fail(record, EventKind.START_FAILED, f"the run did not start: {run.last_line()}")
        elif end in (JobEnd.DIED, JobEnd.GIVEN_UP):
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            message = f"the process of the run died ({how}): {run.last_line()}"
            if end is JobEnd.DIED:
                self._store.add_event(campaign, _event(DIED, message))
            else:
                self._fail(record, DIED, f"{message}; given up")
        return end

    def _fail(self, campaign: Campaign, kind: str, message: str) -> None:
        event = _event(kind, message)
        self._store.void_running_blocks(campaign.id, message, _event(EventKind.BLOCK_VOID, message))
        if campaign.state in (CampaignState.CREATED, CampaignState.RUNNING):
            self._store.move_campaign(campaign.id, CampaignState.FAILED, message, event)
        else:
            self._store.add_event(campaign.id, event)

    async def _closed_s(self, campaign: str) -> float:
        """Return how long the testbeds of a campaign must not be used yet."""
        pauses = await asyncio.to_thread(self._store.events, campaign, kinds=(EventKind.PAUSED,))
        until = continues_at(pauses)
        left_s = 0.0 if until is None else (until - datetime.now(UTC)).total_seconds()
        return max(left_s, self._wait_s())

    def _wait_s(self) -> float:
        return min(_LONGEST_WAIT_S, self._pause_s)


def _event(kind: str, message: str) -> NewEvent:
    return NewEvent(datetime.now(UTC), kind, message)
