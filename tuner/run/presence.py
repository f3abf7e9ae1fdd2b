"""Which process runs which campaign where, as far as this machine can tell.

Derives the status from leases, their ages and what is known of local processes (pure), and reads
the database for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from tuner.holders import is_gone
from tuner.model import Campaign, Event, Holder
from tuner.queue_records import QueuedRun, WorkerProcess
from tuner.records.status import (
    Absence,
    ClosedCampaign,
    KnownWorker,
    Presence,
    RunningCampaign,
    Status,
    WaitingCampaign,
)
from tuner.states import CampaignState
from tuner.store import Running, Store
from tuner.store.queue import Queue

_HOLDER = ("host", "machine", "pid", "start_ticks")
#: Larger than any process number of Linux.
_PIDS = 1 << 31


def status(store: Store) -> Status:
    """Return everything that is running or waiting now."""
    queue = Queue.find(store)
    runs = [] if queue is None else queue.runs()
    workers = [] if queue is None else queue.workers()
    running = store.running(others={run.campaign for run in runs})
    return status_of(running, runs, workers, is_gone, datetime.now(UTC), store.waits())


def absence(store: Store, campaign: str) -> Absence | None:
    """Return why a campaign whose state is running is not making progress; None if it is."""
    running = store.running()
    this = Running(
        [each for each in running.campaigns if each.id == campaign],
        [lease for lease in running.leases if lease.campaign == campaign],
        {},
        running.verifications,
    )
    reason = status_of(this, (), (), is_gone, datetime.now(UTC)).absence(campaign)
    # Only then do the queued runs matter.
    return None if reason is None else status(store).absence(campaign)


def status_of(
    rows_read: Running,
    runs: Sequence[QueuedRun],
    workers: Sequence[WorkerProcess],
    has_ended: Callable[[Holder], bool],
    now: datetime,
    waits: Sequence[tuple[Campaign, Event]] = (),
) -> Status:
    """Derive the status from rows.

    ``runs``: of the queue. ``has_ended``: whether a process is known to have ended. ``now``: for
    campaigns without a lease. ``waits``: the campaigns that a process waits to continue.
    """
    names = {campaign.id: campaign for campaign in rows_read.campaigns}
    served = {queue for worker in workers for queue in worker.queues}
    running = _running(rows_read, {run.campaign for run in runs}, has_ended, now)
    # Resumed by hand, a campaign stays on the queue until its testbeds are open.
    live = {run.campaign for run in running if run.presence is Presence.ALIVE}
    return Status(
        running=running,
        waiting=tuple(
            WaitingCampaign(
                campaign=run.campaign,
                name=names[run.campaign].name if run.campaign in names else "",
                queue=run.queue,
                testbeds=run.testbeds,
                taken_from=run.queue in served,
                not_before=run.not_before,
            )
            for run in runs
            if not run.taken and run.campaign not in live
        ),
        workers=tuple(
            KnownWorker(
                id=worker.id,
                host=worker.holder.host,
                pid=worker.holder.pid,
                queues=worker.queues,
                concurrency=worker.concurrency,
                # A job that a worker has put back on the queue still names that worker.
                campaigns=tuple(
                    run.campaign for run in runs if run.taken and run.worker == worker.id
                ),
                since=worker.started,
                presence=_presence(worker.holder, worker.beat_age_s, worker.limit_s, has_ended),
                heard_s=worker.beat_age_s,
            )
            for worker in workers
        ),
        closed=tuple(
            row
            for campaign, event in waits
            if (row := _closed(campaign, event, has_ended)) is not None
        ),
    )


def _closed(
    campaign: Campaign, event: Event, has_ended: Callable[[Holder], bool]
) -> ClosedCampaign | None:
    """Return a campaign that a process waits to continue; None if its event does not tell which.

    Earlier versions named no process, and what an imported event names may be anything: it must not
    hide all other campaigns.
    """
    try:
        host, machine, pid, start_ticks = (str(event.data[name]) for name in _HOLDER)
        holder = Holder(host, machine, int(pid), int(start_ticks))
        until = datetime.fromisoformat(str(event.data["until"]))
    except (KeyError, ValueError):
        return None
    if until.tzinfo is None or not 0 < holder.pid < _PIDS:
        return None
    return ClosedCampaign(
        campaign=campaign.id,
        name=campaign.name,
        until=until,
        host=holder.host,
        pid=holder.pid,
        presence=Presence.DIED if has_ended(holder) else Presence.ALIVE,
    )


def _running(
    rows_read: Running,
    queued: Collection[str],
    has_ended: Callable[[Holder], bool],
    now: datetime,
) -> tuple[RunningCampaign, ...]:
    campaigns = {campaign.id: campaign for campaign in rows_read.campaigns}
    rows = []
    for lease in rows_read.leases:
        campaign, request = campaigns[lease.campaign], rows_read.requests.get(lease.campaign)
        rows.append(
            RunningCampaign(
                campaign=campaign.id,
                name=campaign.name,
                state=campaign.state,
                presence=_presence(lease.holder, lease.beat_age_s, lease.limit_s, has_ended),
                heard_s=lease.beat_age_s,
                testbed=lease.testbed,
                host=lease.holder.host,
                pid=lease.holder.pid,
                since=lease.taken,
                limit_s=lease.limit_s,
                queued=campaign.id in queued,
                wish=None if request is None else request.wish,
                asked_by="" if request is None else request.asked_by,
                verifies=campaign.id in rows_read.verifications,
                application=rows_read.applications.get((lease.testbed, campaign.id), ""),
            )
        )
    leased = {lease.campaign for lease in rows_read.leases}
    rows += [
        RunningCampaign(
            campaign=campaign.id,
            name=campaign.name,
            state=campaign.state,
            # Leases are taken before a campaign is set running and given back after it ends.
            presence=Presence.DIED,
            heard_s=max(0.0, (now - campaign.updated).total_seconds()),
            queued=campaign.id in queued,
            verifies=campaign.id in rows_read.verifications,
        )
        for campaign in rows_read.campaigns
        if campaign.state is CampaignState.RUNNING and campaign.id not in leased
    ]
    return tuple(rows)


def _presence(
    holder: Holder, heard_s: float, limit_s: float, has_ended: Callable[[Holder], bool]
) -> Presence:
    if has_ended(holder):
        return Presence.DIED
    return Presence.SILENT if heard_s > limit_s else Presence.ALIVE
