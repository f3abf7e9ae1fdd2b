"""The outcome of campaigns whose runs have ended, in every way they can."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tuner.model import Campaign, Event
from tuner.states import CampaignState
from tuner.work.ending import (
    MOST_DEATHS,
    JobEnd,
    RunEnd,
    continues_at,
    deaths,
    end_without_run,
    job_end,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RAN = ("worker-took", "campaign-started", "block-complete", "campaign-paused")
PAUSE_REQUESTED = ("worker-took", "campaign-started", "pause-requested", "campaign-paused")
#: The pause was requested during the run before.
EARLIER = (*PAUSE_REQUESTED, "worker-took", "campaign-started", "campaign-paused")
#: Only the hours of its testbed paused it.
CLOSED = ("worker-took", "campaign-started", "campaign-paused until 20:00")
NEVER = ("campaign-paused", "worker-took")


def campaign(state: str) -> Campaign:
    """Return a campaign; its reason, a sentence, does not affect decisions."""
    return Campaign("c", "c", CampaignState(state), "{}", 0, NOON, NOON, "pause requested from x")


def events(*kinds: str) -> list[Event]:
    """Return events of these kinds; ``KIND until TIME`` has that time."""
    result = []
    for number, kind in enumerate(kinds, start=1):
        name, _, until = kind.partition(" until ")
        data = {"until": f"2026-03-01T{until}+00:00"} if until else {}
        result.append(Event(number, NOON, name, "", data))
    return result


@pytest.mark.parametrize(
    ("state", "kinds", "status", "in_use", "stopping", "expected"),
    [
        ("finished", RAN, 0, False, False, JobEnd.FINISHED),
        ("cancelled", RAN, 130, False, True, JobEnd.CANCELLED),
        ("paused", PAUSE_REQUESTED, 130, False, False, JobEnd.PAUSED),
        ("paused", PAUSE_REQUESTED, 130, False, True, JobEnd.PAUSED),
        ("paused", RAN, 130, False, True, JobEnd.PUT_BACK),
        ("paused", EARLIER, 130, False, True, JobEnd.PUT_BACK),
        ("paused", RAN, 130, False, False, JobEnd.PAUSED),
        ("paused", CLOSED, 130, False, False, JobEnd.WAITING),
        ("paused", CLOSED, 130, False, True, JobEnd.WAITING),
        (
            "paused",
            ("worker-took", "pause-requested", *CLOSED[1:]),
            130,
            False,
            False,
            JobEnd.PAUSED,
        ),
        ("paused", (*CLOSED, *RAN), 130, False, False, JobEnd.PAUSED),
        ("paused", NEVER, -15, False, True, JobEnd.PUT_BACK),
        ("paused", NEVER, 2, False, False, JobEnd.REFUSED),
        ("failed", RAN, 9, False, False, JobEnd.FAILED),
        ("failed", NEVER, 2, False, False, JobEnd.REFUSED),
        ("created", ("campaign-created", "worker-took"), 4, True, False, JobEnd.PUT_BACK),
        ("created", ("campaign-created", "worker-took"), 4, False, False, JobEnd.REFUSED),
        ("created", ("campaign-created", "worker-took"), 5, False, False, JobEnd.PUT_BACK),
        ("created", ("campaign-created", "worker-took"), -9, False, False, JobEnd.DIED),
        ("running", ("worker-took", "block-complete"), -9, False, False, JobEnd.DIED),
        ("running", ("worker-took", "block-complete"), -9, False, True, JobEnd.PUT_BACK),
        ("running", ("worker-took", "block-complete"), 4, True, False, JobEnd.PUT_BACK),
        (
            "running",
            ("run-died", "run-died", "block-started"),
            -9,
            False,
            False,
            JobEnd.GIVEN_UP,
        ),
    ],
)
def test_outcome_of_a_campaign(
    state: str,
    kinds: tuple[str, ...],
    status: int,
    in_use: bool,
    stopping: bool,
    expected: JobEnd,
) -> None:
    end = RunEnd(campaign(state), events(*kinds), status, in_use, stopping)
    assert job_end(end) is expected


def test_deaths_count_from_the_last_progress() -> None:
    assert deaths(events("run-died", "run-died", "block-complete", "run-died")) == 1
    assert deaths(events()) == 0
    assert MOST_DEATHS > 1


@pytest.mark.parametrize(
    ("state", "kinds", "expected"),
    [
        ("created", (), None),
        ("running", RAN, None),
        ("finished", RAN, JobEnd.FINISHED),
        ("cancelled", RAN, JobEnd.CANCELLED),
        # Queued again by somebody who knows its state. The job may be older than its first run: a
        # worker puts it back while the testbed is in use.
        ("paused", (*PAUSE_REQUESTED, "campaign-queued"), None),
        ("failed", (*RAN, "campaign-queued"), None),
        ("failed", (*RAN, "campaign-queued", "worker-took"), None),
        # The worker that ran it died before it could end the job.
        ("paused", ("campaign-queued", *PAUSE_REQUESTED), JobEnd.PAUSED),
        ("failed", ("campaign-queued", *RAN), JobEnd.FAILED),
        ("paused", ("campaign-queued", *RAN), None),
        ("paused", ("campaign-queued", *EARLIER), None),
    ],
)
def test_which_campaigns_are_not_started_again(
    state: str, kinds: tuple[str, ...], expected: JobEnd | None
) -> None:
    assert end_without_run(campaign(state), events(*kinds)) is expected


@pytest.mark.parametrize("until", [None, "", "20:00", 1772395200, "2026-03-01T20:00"])
def test_a_pause_that_does_not_tell_when_to_continue_is_no_wait(until: int | str | None) -> None:
    data: dict[str, int | str | None] = {} if until == "" else {"until": until}
    assert continues_at([Event(1, NOON, "campaign-paused", "", data)]) is None
    assert continues_at(events(*CLOSED)) == datetime(2026, 3, 1, 20, tzinfo=UTC)
