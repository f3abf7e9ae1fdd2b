"""Render the status: running and waiting campaigns, and workers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from tuner.records.status import (
    ClosedCampaign,
    KnownWorker,
    Presence,
    RunningCampaign,
    Status,
    WaitingCampaign,
)
from tuner.report.drawing import Printable
from tuner.report.listing import Column, Listing
from tuner.report.styles import NAME, QUIET, SLOWER, literal
from tuner.states import OVER
from tuner.text import duration, moment

_COLUMNS = (
    Column("Campaign", rigid=True),
    Column("Name"),
    Column("Testbed"),
    Column("Process"),
    Column("Since", rigid=True),
    Column("Last seen", rigid=True, right=True),
    Column("State"),
)


def status_pages(status: Status) -> list[RenderableType]:
    """Render the tables of running campaigns and, unless empty, of campaigns that wait for a worker
    or for the hours of their testbeds, and of workers.
    """
    pages = [_running_table(status.running)]
    if status.waiting:
        pages.append(_waiting_table(status.waiting))
    if status.closed:
        pages.append(_closed_table(status.closed))
    if status.workers:
        pages.append(_workers_table(status.workers))
    return pages


def _running_table(running: Sequence[RunningCampaign]) -> RenderableType:
    rows = [
        (
            literal(run.campaign, NAME),
            literal(run.name),
            literal(run.testbed),
            literal("" if run.pid is None else f"{run.pid} on {run.host}"),
            Text("" if run.since is None else moment(run.since), style=QUIET),
            Text(f"{duration(run.heard_s)} ago"),
            _state(run),
        )
        for run in running
    ]
    return Printable(Listing(_COLUMNS, tuple(rows))) if rows else Text("No campaign is running.")


def _waiting_table(waiting: Sequence[WaitingCampaign]) -> RenderableType:
    rows = [
        (
            literal(run.campaign, NAME),
            literal(run.name),
            literal(", ".join(run.testbeds)),
            _queue(run),
        )
        for run in waiting
    ]
    columns = (_COLUMNS[0], _COLUMNS[1], _COLUMNS[2], Column("Waits in queue"))
    return Printable(Listing(columns, tuple(rows)))


def _closed_table(closed: Sequence[ClosedCampaign]) -> RenderableType:
    rows = [
        (
            literal(one.campaign, NAME),
            literal(one.name),
            literal(f"{one.pid} on {one.host}"),
            Text("died; resume it with 'fstune resume'", style=SLOWER)
            if one.presence is Presence.DIED
            else Text(f"at {moment(one.until)}"),
        )
        for one in closed
    ]
    columns = (_COLUMNS[0], _COLUMNS[1], _COLUMNS[3], Column("Continues"))
    return Printable(Listing(columns, tuple(rows)))


def _queue(run: WaitingCampaign) -> Text:
    if not run.taken_from:
        return literal(f"{run.queue}: no worker takes from it", SLOWER)
    since = "" if run.not_before is None else f", until {moment(run.not_before)}"
    return literal(f"{run.queue}{since}")


def _workers_table(workers: Sequence[KnownWorker]) -> RenderableType:
    rows = [
        (
            Text(str(worker.id), style=NAME),
            literal(f"{worker.pid} on {worker.host}"),
            literal(", ".join(worker.queues)),
            Text(moment(worker.since), style=QUIET),
            Text(f"{duration(worker.heard_s)} ago"),
            _work(worker),
        )
        for worker in workers
    ]
    columns = (
        Column("Worker", rigid=True),
        Column("Process"),
        Column("Takes from"),
        Column("Since", rigid=True),
        Column("Last seen", rigid=True, right=True),
        Column("Campaigns"),
    )
    return Printable(Listing(columns, tuple(rows)))


def _work(worker: KnownWorker) -> Text:
    if worker.presence is not Presence.ALIVE:
        return Text("died; another worker takes over", style=SLOWER)
    ids = " ".join(worker.campaigns)
    return literal(f"{len(worker.campaigns)} of {worker.concurrency}{': ' if ids else ''}{ids}")


def _state(run: RunningCampaign) -> Text:
    if run.presence is Presence.DIED:
        todo = "resume it with 'fstune resume'"
        if run.application:
            todo = f"undo this application with 'fstune rollback {run.application}'"
        elif run.state in OVER:
            todo = f"the campaign is {run.state}"
        elif run.queued:
            todo = "a worker resumes it"
        elif run.verifies:
            todo = "end this verification with 'fstune cancel'"
        return Text(f"died; {todo}", style=SLOWER)
    if run.presence is Presence.SILENT:
        limit = duration(run.limit_s or 0.0)
        return Text(f"silent for more than {limit}; may be taken over", SLOWER)
    if run.wish is not None:
        return literal(f"will {run.wish}, requested from {run.asked_by}")
    return literal(f"application {run.application}" if run.application else "runs")
