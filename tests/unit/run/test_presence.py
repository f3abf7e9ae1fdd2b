"""Whether a process runs a campaign, and what is reported if none does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.report.samples import printed
from tuner.model import Campaign, Event, Holder, Lease, Request, Wish
from tuner.queue_records import QueuedRun, WorkerProcess
from tuner.records.status import Presence, Status
from tuner.report.status import status_pages
from tuner.run.presence import status_of
from tuner.states import CampaignState
from tuner.store import Running

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE, THERE = Holder("here", "boot:1", 100, 1), Holder("there", "boot:2", 200, 1)
CAMPAIGN = Campaign(
    id="20260301-120000-abcd",
    name="one",
    state=CampaignState.RUNNING,
    spec="{}",
    seed=1,
    created=NOW,
    updated=NOW - timedelta(hours=2, minutes=5),
)


def lease(holder: Holder = THERE, heard_s: float = 10.0, testbed: str = "hall 7") -> Lease:
    return Lease(testbed, CAMPAIGN.id, "token", holder, NOW, heard_s, 120.0)


def status(
    *leases: Lease,
    state: CampaignState = CampaignState.RUNNING,
    queued: int = 0,
    verifications: Collection[str] = (),
) -> Status:
    """Return the status if the process of ``HERE`` is known to have ended."""
    rows = Running([replace(CAMPAIGN, state=state)], list(leases), {}, frozenset(verifications))
    jobs = [QueuedRun(1, CAMPAIGN.id, "simulated", (), True, 3)] * queued
    return status_of(rows, jobs, (), lambda holder: holder == HERE, NOW)


@pytest.mark.parametrize(
    ("leases", "message"),
    [
        ([lease()], None),
        ([lease(heard_s=119.0)], None),
        # One process runs a campaign on all of its testbeds.
        ([lease(heard_s=130.0), lease(testbed="hall 8")], None),
        (
            [lease(heard_s=425.0)],
            "its process (200 on there) has not been heard from for 7 min",
        ),
        (
            [lease(HERE, heard_s=4.0)],
            "its process (100 on here) has died; it was last heard from less than a minute ago",
        ),
        ([], "no process runs it any more; it was last heard from 2 h 05 min ago"),
    ],
)
def test_a_silent_process_is_reported_absent(leases: list[Lease], message: str | None) -> None:
    absence = status(*leases).absence(CAMPAIGN.id)
    assert (None if absence is None else absence.reason) == message
    if absence is not None:
        assert absence.advice(" --server x") == (
            f"to resume it: fstune resume {CAMPAIGN.id} --server x"
        )


@pytest.mark.parametrize("state", [s for s in CampaignState if s is not CampaignState.RUNNING])
def test_a_campaign_that_does_not_run_is_not_reported_absent(state: CampaignState) -> None:
    assert status(lease(HERE), state=state).absence(CAMPAIGN.id) is None


def test_a_queued_campaign_is_left_to_its_worker() -> None:
    absence = status(lease(HERE), queued=1).absence(CAMPAIGN.id)
    assert absence is not None
    assert absence.queued
    assert "a worker resumes it" in absence.sentence()


def test_the_status_shows_all_that_is_known() -> None:
    other = replace(CAMPAIGN, id="other", name="two", state=CampaignState.CREATED)
    current = status_of(
        Running([CAMPAIGN, other], [lease()], {CAMPAIGN.id: Request(Wish.PAUSE, "desk", NOW)}),
        [QueuedRun(1, "other", "cell@far", ("hall 8",), False, None)],
        [
            WorkerProcess(3, THERE, ("simulated",), 2, NOW, 5.0, 60.0),
            WorkerProcess(4, THERE, ("simulated",), 2, NOW, 61.0, 60.0),
        ],
        lambda _: False,
        NOW,
    )
    assert [worker.presence for worker in current.workers] == [Presence.ALIVE, Presence.SILENT]
    running, waiting, workers = (printed(page, 200) for page in status_pages(current))
    assert "will pause, requested from desk" in running
    assert "200 on there" in running
    assert "cell@far: no worker takes from it" in waiting
    assert "two" in waiting
    assert "0 of 2" in workers
    assert "died; another worker takes over" in workers


@pytest.mark.parametrize(
    ("leases", "waits"),
    [([], True), ([lease()], False), ([lease(HERE)], True), ([lease(heard_s=130.0)], True)],
)
def test_a_campaign_that_a_process_has_resumed_by_hand_no_longer_waits(
    leases: list[Lease], waits: bool
) -> None:
    paused = replace(CAMPAIGN, state=CampaignState.PAUSED)
    job = QueuedRun(1, CAMPAIGN.id, "simulated", (), False, 3)  # put back by worker 3
    worker = WorkerProcess(3, THERE, ("simulated",), 2, NOW, 5.0, 60.0)
    rows = Running([paused], leases, {})
    current = status_of(rows, [job], [worker], lambda holder: holder == HERE, NOW)
    assert [run.campaign for run in current.waiting] == [CAMPAIGN.id] * waits
    assert [run.campaign for run in current.running] == [CAMPAIGN.id] * len(leases)
    assert current.workers[0].campaigns == ()
    current = status_of(rows, [replace(job, taken=True)], [worker], lambda _: False, NOW)
    assert current.workers[0].campaigns == (CAMPAIGN.id,)


@pytest.mark.parametrize("leases", [[], [lease(HERE)]])
def test_nobody_is_told_to_resume_a_verification(leases: list[Lease]) -> None:
    current = status(*leases, verifications=[CAMPAIGN.id])
    absence = current.absence(CAMPAIGN.id)
    assert absence is not None
    assert absence.advice(" --server x") == (
        f"to end this verification: fstune cancel {CAMPAIGN.id} --server x"
    )
    assert current.stalled() == {CAMPAIGN.id: "its process is gone; cancel it"}
    (page,) = status_pages(current)
    assert "died; end this verification with 'fstune cancel'" in printed(page, 200)


def test_an_application_that_was_cut_off_is_named_with_what_undoes_it() -> None:
    done = replace(CAMPAIGN, state=CampaignState.FINISHED)
    elsewhere = replace(lease(HERE), testbed="other")
    applications = {(lease().testbed, done.id): "a1"}
    rows = Running([done], [lease(HERE), elsewhere], {}, applications=applications)
    (page,) = status_pages(status_of(rows, [], [], lambda holder: holder == HERE, NOW))
    text = printed(page, 200)
    assert "died; undo this application with 'fstune rollback a1'" in text
    assert text.count("died; the campaign is finished") == 1
    (page,) = status_pages(status_of(rows, [], [], lambda _: False, NOW))
    assert "application a1" in printed(page, 200)


def test_a_cancelled_campaign_is_not_resumed() -> None:
    (page,) = status_pages(status(lease(HERE), state=CampaignState.CANCELLED))
    assert "died; the campaign is cancelled" in printed(page, 200)


Data = dict[str, str | int | float | bool | None]
WAIT: Data = {
    "until": "2026-03-01T20:00:00+00:00",
    "host": "there",
    "machine": "boot:2",
    "pid": 200,
    "start_ticks": 1,
}


@pytest.mark.parametrize(
    "data",
    [
        {},  # of earlier versions
        {"until": WAIT["until"]},
        WAIT | {"until": "soon"},
        WAIT | {"until": "2026-03-01T20:00:00"},
        WAIT | {"pid": "me"},
        WAIT | {"pid": -1},
        WAIT | {"pid": 1 << 40},
        WAIT | {"start_ticks": None},
    ],
)
def test_an_event_that_cannot_be_read_hides_no_other_campaign(data: Data) -> None:
    paused = replace(CAMPAIGN, state=CampaignState.PAUSED)
    waits = [
        (replace(paused, id=name), Event(1, NOW, "campaign-waits", "it waits", content))
        for name, content in (("bad", data), ("good", WAIT))
    ]
    current = status_of(Running([], [], {}), (), (), lambda _: False, NOW, waits)
    assert [(each.campaign, each.pid) for each in current.closed] == [("good", 200)]
