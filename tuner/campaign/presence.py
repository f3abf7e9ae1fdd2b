"""Who runs which campaign where, as far as can be told from this machine.

Owns what follows from leases, their ages and what is known of processes here (pure), and the one
look at the database that it follows from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from tuner.campaign.holding import is_gone
from tuner.model import Holder, QueuedRun, WorkerProcess
from tuner.records.status import (
    Absence,
    KnownWorker,
    Presence,
    RunningCampaign,
    Status,
    WaitingCampaign,
)
from tuner.states import CampaignState
from tuner.store import Running, Store
from tuner.store.queue import Queue


def status(store: Store) -> Status:
    """Everything that runs or waits now."""
    queue = Queue.found(store)
    runs = [] if queue is None else queue.runs()
    workers = [] if queue is None else queue.workers()
    found = store.running(named={run.campaign for run in runs})
    return seen(found, runs, workers, is_gone, datetime.now(UTC))


def absence(store: Store, campaign: str) -> Absence | None:
    """Why a campaign does not go on, though it runs by its state; None when nothing is amiss."""
    found = store.running()
    this = Running(
        [each for each in found.campaigns if each.id == campaign],
        [lease for lease in found.leases if lease.campaign == campaign],
        {},
    )
    told = seen(this, (), (), is_gone, datetime.now(UTC)).absence(campaign)
    # Only then it matters what waits.
    return None if told is None else status(store).absence(campaign)


def seen(
    found: Running,
    runs: Sequence[QueuedRun],
    workers: Sequence[WorkerProcess],
    gone: Callable[[Holder], bool],
    now: datetime,
) -> Status:
    """What follows from rows. ``runs``: of the queue; ``gone``: whether a process is known to have
    ended; ``now``: for campaigns that nobody holds a testbed for.
    """
    names = {campaign.id: campaign for campaign in found.campaigns}
    taken = {queue for worker in workers for queue in worker.queues}
    return Status(
        running=_running(found, {run.campaign for run in runs}, gone, now),
        waiting=tuple(
            WaitingCampaign(
                campaign=run.campaign,
                name=names[run.campaign].name if run.campaign in names else "",
                queue=run.queue,
                testbeds=run.testbeds,
                taken_from=run.queue in taken,
            )
            for run in runs
            if not run.taken
        ),
        workers=tuple(
            KnownWorker(
                id=worker.id,
                host=worker.holder.host,
                pid=worker.holder.pid,
                queues=worker.queues,
                concurrency=worker.concurrency,
                campaigns=tuple(run.campaign for run in runs if run.worker == worker.id),
                since=worker.started,
                presence=_presence(worker.holder, worker.beat_age_s, worker.limit_s, gone),
                heard_s=worker.beat_age_s,
            )
            for worker in workers
        ),
    )


def _running(
    found: Running, queued: Collection[str], gone: Callable[[Holder], bool], now: datetime
) -> tuple[RunningCampaign, ...]:
    campaigns = {campaign.id: campaign for campaign in found.campaigns}
    rows = []
    for lease in found.leases:
        campaign, asked = campaigns[lease.campaign], found.requests.get(lease.campaign)
        rows.append(
            RunningCampaign(
                campaign=campaign.id,
                name=campaign.name,
                state=campaign.state,
                presence=_presence(lease.holder, lease.beat_age_s, lease.limit_s, gone),
                heard_s=lease.beat_age_s,
                testbed=lease.testbed,
                host=lease.holder.host,
                pid=lease.holder.pid,
                since=lease.taken,
                limit_s=lease.limit_s,
                queued=campaign.id in queued,
                wish=None if asked is None else asked.wish,
                asked_by="" if asked is None else asked.asked_by,
            )
        )
    held = {lease.campaign for lease in found.leases}
    rows += [
        RunningCampaign(
            campaign=campaign.id,
            name=campaign.name,
            state=campaign.state,
            # Who begins to run holds its testbeds by then, and gives them back after the end.
            presence=Presence.DIED,
            heard_s=max(0.0, (now - campaign.updated).total_seconds()),
            queued=campaign.id in queued,
        )
        for campaign in found.campaigns
        if campaign.state is CampaignState.RUNNING and campaign.id not in held
    ]
    return tuple(rows)


def _presence(
    holder: Holder, heard_s: float, limit_s: float, gone: Callable[[Holder], bool]
) -> Presence:
    if gone(holder):
        return Presence.DIED
    return Presence.SILENT if heard_s > limit_s else Presence.ALIVE
