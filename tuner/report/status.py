"""Who runs which campaign where, as a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from rich.console import RenderableType
from rich.text import Text

from tuner.model import Campaign, Lease, QueuedRun, Request, WorkerProcess
from tuner.report.drawing import Printable
from tuner.report.tables import Column, Listing
from tuner.report.words import NAME, QUIET, SLOWER, duration, literal, moment

_COLUMNS = (
    Column("Campaign", rigid=True),
    Column("Name"),
    Column("Testbed"),
    Column("Process"),
    Column("Since", rigid=True),
    Column("Heard of", rigid=True, right=True),
    Column("State"),
)


def status_table(
    leases: Sequence[Lease],
    names: Mapping[str, str],
    gone: Set[str],
    requests: Mapping[str, Request | None],
    lost: Sequence[Campaign],
) -> RenderableType:
    """One row a running campaign. ``names``: of campaigns, by identifier; ``gone``: campaigns whose
    process is known to have ended; ``lost``: those that run by their state, but in no process.
    """
    rows = [
        (
            literal(lease.campaign, NAME),
            literal(names.get(lease.campaign, "")),
            literal(lease.testbed),
            literal(f"{lease.holder.pid} on {lease.holder.host}"),
            Text(moment(lease.taken), style=QUIET),
            Text(f"{duration(lease.beat_age_s)} ago"),
            _state(lease, lease.campaign in gone, requests.get(lease.campaign)),
        )
        for lease in leases
    ]
    rows += [
        (
            literal(campaign.id, NAME),
            literal(campaign.name),
            Text(""),
            Text(""),
            Text(""),
            Text(""),
            Text("died; take it up with 'fstune resume'", style=SLOWER),
        )
        for campaign in lost
    ]
    return Printable(Listing(_COLUMNS, tuple(rows))) if rows else Text("No campaign runs.")


def queue_table(
    waiting: Sequence[QueuedRun], names: Mapping[str, str], workers: Sequence[WorkerProcess]
) -> RenderableType:
    """One row a campaign that waits for a worker, in the order in which they came."""
    taken = {queue for worker in workers for queue in worker.queues}
    rows = [
        (
            literal(run.campaign, NAME),
            literal(names.get(run.campaign, "")),
            literal(", ".join(run.testbeds)),
            literal(run.queue)
            if run.queue in taken
            else literal(f"{run.queue}: no worker takes from it", SLOWER),
        )
        for run in waiting
    ]
    columns = (_COLUMNS[0], _COLUMNS[1], _COLUMNS[2], Column("Waits in queue"))
    return Printable(Listing(columns, tuple(rows)))


def workers_table(
    workers: Sequence[WorkerProcess], runs: Sequence[QueuedRun], gone: Set[int]
) -> RenderableType:
    """One row a worker. ``gone``: those that are known to have ended."""
    rows = [
        (
            Text(str(worker.id), style=NAME),
            literal(f"{worker.holder.pid} on {worker.holder.host}"),
            literal(", ".join(worker.queues)),
            Text(moment(worker.started), style=QUIET),
            Text(f"{duration(worker.beat_age_s)} ago"),
            _work(worker, [run for run in runs if run.worker == worker.id], worker.id in gone),
        )
        for worker in workers
    ]
    columns = (
        Column("Worker", rigid=True),
        Column("Process"),
        Column("Takes from"),
        Column("Since", rigid=True),
        Column("Heard of", rigid=True, right=True),
        Column("Campaigns"),
    )
    return Printable(Listing(columns, tuple(rows)))


def _work(worker: WorkerProcess, runs: Sequence[QueuedRun], gone: bool) -> Text:
    if gone or worker.beat_age_s > worker.limit_s:
        return Text("died; another worker takes over", style=SLOWER)
    ids = " ".join(run.campaign for run in runs)
    return literal(f"{len(runs)} of {worker.concurrency}{': ' if ids else ''}{ids}")


def _state(lease: Lease, gone: bool, asked: Request | None) -> Text:
    if gone:
        return Text("died; take it up with 'fstune resume'", style=SLOWER)
    if lease.beat_age_s > lease.limit_s:
        return Text(f"silent for more than {duration(lease.limit_s)}; may be taken over", SLOWER)
    if asked is not None:
        return literal(f"will {asked.wish}, asked from {asked.asked_by}")
    return Text("runs")
