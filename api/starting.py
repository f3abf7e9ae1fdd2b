"""Start the service's campaigns: in processes that outlive it, or through the queue of workers."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from api.problems import RequestError
from tuner.applications import Application
from tuner.errors import NO_IMPROVEMENT, ConflictError, StoreError, TunerError
from tuner.holders import is_gone
from tuner.model import Campaign
from tuner.run.steering import in_use
from tuner.states import OVER, CampaignState, EventKind
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications
from tuner.store.pages import Pages
from tuner.store.queue import Queue
from tuner.store.verifications import Verifications
from tuner.text import counted
from tuner.work.queueing import enqueue
from tuner.work.runs import Run, application_run, run_of, verification_run


class Starter:
    """Starts runs of campaigns in one store, and records those that fail to start."""

    def __init__(
        self,
        store: Store,
        directory: Path,
        database: str | None,
        *,
        most: int,
        queue: bool = False,
    ) -> None:
        """``queue``: leave runs to workers; ``most``: the number of runs at once otherwise. Raises
        SpecError if the store supports no queue.
        """
        self._store = store
        self._directory = directory.absolute()
        self._database = database
        self._queue = Queue.create(store) if queue else None
        self._most = most
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._beginning = threading.Lock()
        self._begun_campaigns: set[str] = set()

    def begin(self, campaign: Campaign) -> None:
        """Start a campaign unless it has already been started."""
        with self._beginning:
            if campaign.id in self._begun_campaigns or campaign.state is not CampaignState.CREATED:
                return
            if in_use(self._store, campaign.id):
                return
            try:
                self.start(campaign.id)
            except ConflictError:
                if self._queue is None:
                    raise  # otherwise it is already on the queue
            self._begun_campaigns.add(campaign.id)

    def start(self, campaign: str, *, override_pilot: bool = False) -> None:
        """Start or resume a stored campaign from its current state."""
        if self._queue is not None:
            record = self._store.campaign(campaign)
            enqueue(self._queue, record, self._directory, override_pilot=override_pilot)
            return
        run = run_of(campaign, self._directory, self._database, override_pilot=override_pilot)
        process = self._start_one_more(run)
        threading.Thread(
            target=self._hear, args=(campaign, process, run), name=campaign, daemon=True
        ).start()

    def refuse_too_many(self) -> None:
        """Raise RequestError if no further run may be started at the moment: each is a process."""
        running = sum(process.returncode is None for process in self._processes)
        if self._queue is None and running >= self._most:
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too-many-runs",
                f"this service runs {counted(running, 'campaign')}, as many as FSTUNE_API_RUNS "
                "allows; try again when one has ended",
                {"Retry-After": "60"},
            )

    def refuse_used(self, testbeds: Collection[str]) -> None:
        """Raise InUseError if one of these testbeds is in use: a worker would wait for it, but a
        run started now fails.
        """
        if self._queue is None:
            self._store.refuse_used(testbeds, is_gone)

    def _start_one_more(self, run: Run) -> subprocess.Popen[bytes]:
        self.refuse_too_many()
        process = _start_process(run)
        self._processes = {one for one in self._processes if one.returncode is None} | {process}
        return process

    def refuse_queued(self, campaign: str) -> None:
        """Raise ConflictError if a campaign is already on the queue that runs are left to."""
        if self._queue is not None:
            self._queue.refuse_queued(campaign)

    def start_application(self, command: str, application: Application) -> None:
        """Start the command ``apply`` or ``rollback`` for an application in a separate process.

        Raises ConflictError if runs are left to workers.
        """
        self.refuse_queue(command, application.id)
        run = application_run(command, application.id, self._directory, self._database)
        threading.Thread(
            target=self._hear_application,
            args=(application, _start_process(run), run),
            name=application.id,
            daemon=True,
        ).start()

    def refuse_queue(self, command: str, reference: str) -> None:
        """Raise ConflictError if runs are left to workers: it is unknown which hosts they reach."""
        if self._queue is not None:
            raise ConflictError(
                "this service leaves runs to workers; use the command line on a machine "
                f"that reaches the testbed: fstune {command} {reference}"
            )

    def start_verification(self, campaign: str, blocks: int, request: int) -> None:
        """Start verifying a campaign's recommendation in a separate process.

        ``request``: number of the campaign event that requested it.
        """
        run = verification_run(campaign, blocks, request, self._directory, self._database)
        threading.Thread(
            target=self._hear_verification,
            args=(campaign, request, self._start_one_more(run), run),
            name=f"verify-{campaign}",
            daemon=True,
        ).start()

    def _hear_verification(
        self, campaign: str, request: int, process: subprocess.Popen[bytes], run: Run
    ) -> None:
        """Wait for the process to exit, and record a failure if it left no result.

        The process records its own result unless it was killed. Its exit status does not show
        whether it did: it is also 0 if someone else has waited for the child.
        """
        status = process.wait()
        if status < 0:
            message = f"its process was killed by signal {-status}"
        elif status in (0, NO_IMPROVEMENT):
            message = "its process ended without a message"
        else:
            message = run.last_line()
        with suppress(TunerError):  # already logged
            Verifications(self._store).fail(campaign, request, message)

    def _hear_application(
        self, application: Application, process: subprocess.Popen[bytes], run: Run
    ) -> None:
        """Wait for the process to exit. Record why if the command never started."""
        if process.wait() == 0:
            return
        applications = Applications(self._store)
        try:
            if applications.get(application.id).asked_by is not None:
                applications.unask(application.id)
                message = f"{application.id}: it did not start: {run.last_line()}"
                event = NewEvent(datetime.now(UTC), EventKind.START_FAILED, message)
                self._store.add_event(application.campaign, event)
        except TunerError:
            return  # the log has it

    def _hear(self, campaign: str, process: subprocess.Popen[bytes], run: Run) -> None:
        """Wait for a run to exit. Record why if it never started."""
        if process.wait() == 0:
            return
        try:
            record = self._store.campaign(campaign)
            now = datetime.now(UTC)
            message = f"the run did not start: {run.last_line()}"
            event = NewEvent(now, EventKind.START_FAILED, message)
            if record.state is CampaignState.CREATED and not in_use(self._store, campaign):
                state = CampaignState.FAILED
                self._store.move_campaign(campaign, state, event.message, event)
            elif record.state not in OVER and _never_ran(self._store, campaign):
                self._store.add_event(campaign, event)
        except TunerError:
            return  # the log has it


def _start_process(run: Run) -> subprocess.Popen[bytes]:
    """Start a run. StoreError when the machine does not let it, as when the disk is full."""
    try:
        return _spawn(run)
    except OSError as problem:
        raise StoreError(f"the run cannot be started: {problem.strerror}") from problem


def _spawn(run: Run) -> subprocess.Popen[bytes]:
    with run.output() as out:
        return subprocess.Popen(
            run.command,
            env=run.environment,
            cwd=run.directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # Stopping the service must not stop its runs.
            start_new_session=True,
        )


def _never_ran(store: Store, campaign: str) -> bool:
    """Whether no run followed the last resume request: a run that stops records its own event."""
    newest = Pages(store).events(campaign, 0, last=1)
    return bool(newest) and newest[-1].kind == EventKind.RESUME_REQUESTED
