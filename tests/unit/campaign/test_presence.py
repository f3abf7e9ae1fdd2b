"""Whether somebody runs a campaign, and what is said where nobody does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.report.samples import printed
from tuner.campaign.presence import status_of
from tuner.model import Campaign, Holder, Lease, Request, Wish
from tuner.queue_records import QueuedRun, WorkerProcess
from tuner.records.status import Presence, Status
from tuner.report.status import status_pages
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


def status(*leases: Lease, state: CampaignState = CampaignState.RUNNING, queued: int = 0) -> Status:
    """What is seen where the process of ``HERE`` is known to have ended."""
    found = Running([replace(CAMPAIGN, state=state)], list(leases), {})
    jobs = [QueuedRun(1, CAMPAIGN.id, "simulated", (), True, 3)] * queued
    return status_of(found, jobs, (), lambda holder: holder == HERE, NOW)


@pytest.mark.parametrize(
    ("leases", "said"),
    [
        ([lease()], None),
        ([lease(heard_s=119.0)], None),
        # One process runs a campaign on all its testbeds.
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
def test_who_is_not_heard_from_is_missed(leases: list[Lease], said: str | None) -> None:
    found = status(*leases).absence(CAMPAIGN.id)
    assert (None if found is None else found.said) == said
    if found is not None:
        assert found.advice(" --server x") == (
            f"to resume it: fstune resume {CAMPAIGN.id} --server x"
        )


@pytest.mark.parametrize("state", [s for s in CampaignState if s is not CampaignState.RUNNING])
def test_a_campaign_that_does_not_run_is_not_missed(state: CampaignState) -> None:
    assert status(lease(HERE), state=state).absence(CAMPAIGN.id) is None


def test_what_a_worker_takes_up_again_is_left_to_it() -> None:
    found = status(lease(HERE), queued=1).absence(CAMPAIGN.id)
    assert found is not None
    assert found.queued
    assert "a worker resumes it" in found.sentence()


def test_what_is_shown_is_what_is_known() -> None:
    other = replace(CAMPAIGN, id="other", name="two", state=CampaignState.CREATED)
    found = status_of(
        Running([CAMPAIGN, other], [lease()], {CAMPAIGN.id: Request(Wish.PAUSE, "desk", NOW)}),
        [QueuedRun(1, "other", "cell@far", ("hall 8",), False, None)],
        [
            WorkerProcess(3, THERE, ("simulated",), 2, NOW, 5.0, 60.0),
            WorkerProcess(4, THERE, ("simulated",), 2, NOW, 61.0, 60.0),
        ],
        lambda _: False,
        NOW,
    )
    assert [worker.presence for worker in found.workers] == [Presence.ALIVE, Presence.SILENT]
    running, waiting, workers = (printed(page, 200) for page in status_pages(found))
    assert "will pause, asked from desk" in running
    assert "200 on there" in running
    assert "cell@far: no worker takes from it" in waiting
    assert "two" in waiting
    assert "0 of 2" in workers
    assert "died; another worker takes over" in workers


def test_of_what_was_cancelled_nothing_is_taken_up() -> None:
    (page,) = status_pages(status(lease(HERE), state=CampaignState.CANCELLED))
    assert "died; the campaign is cancelled" in printed(page, 200)
