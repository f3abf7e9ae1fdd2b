"""What becomes of campaigns whose runs have ended, each way in which they can."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tuner.model import Campaign, Event
from tuner.states import CampaignState
from tuner.work.ending import MOST_DEATHS, Ended, Fate, deaths, fate, settled

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RAN = ("worker-took", "campaign-started", "block-complete", "campaign-paused")
NEVER = ("campaign-paused", "worker-took")


def campaign(state: str, reason: str = "") -> Campaign:
    return Campaign("c", "c", CampaignState(state), "{}", 0, NOON, NOON, reason)


def events(*kinds: str) -> list[Event]:
    return [Event(number, NOON, kind, "") for number, kind in enumerate(kinds, start=1)]


@pytest.mark.parametrize(
    ("state", "reason", "kinds", "status", "in_use", "stopping", "expected"),
    [
        ("finished", "", RAN, 0, False, False, Fate.FINISHED),
        ("cancelled", "asked to cancel from x", RAN, 130, False, True, Fate.CANCELLED),
        ("paused", "asked to pause from x", RAN, 130, False, False, Fate.PAUSED),
        ("paused", "asked to pause from x", RAN, 130, False, True, Fate.PAUSED),
        ("paused", "stopped by SIGTERM", RAN, 130, False, True, Fate.PUT_BACK),
        ("paused", "stopped by SIGTERM", RAN, 130, False, False, Fate.PAUSED),
        ("paused", "stopped by SIGTERM", NEVER, -15, False, True, Fate.PUT_BACK),
        ("paused", "stopped by SIGTERM", NEVER, 2, False, False, Fate.REFUSED),
        ("failed", "the baseline fails", RAN, 9, False, False, Fate.FAILED),
        ("failed", "the baseline fails", NEVER, 2, False, False, Fate.REFUSED),
        ("created", "", ("campaign-created", "worker-took"), 4, True, False, Fate.PUT_BACK),
        ("created", "", ("campaign-created", "worker-took"), 4, False, False, Fate.REFUSED),
        ("created", "", ("campaign-created", "worker-took"), 5, False, False, Fate.PUT_BACK),
        ("created", "", ("campaign-created", "worker-took"), -9, False, False, Fate.DIED),
        ("running", "", ("worker-took", "block-complete"), -9, False, False, Fate.DIED),
        ("running", "", ("worker-took", "block-complete"), -9, False, True, Fate.PUT_BACK),
        ("running", "", ("worker-took", "block-complete"), 4, True, False, Fate.PUT_BACK),
        ("running", "", ("run-died", "run-died", "block-started"), -9, False, False, Fate.GIVEN_UP),
    ],
)
def test_what_becomes_of_a_campaign(
    state: str,
    reason: str,
    kinds: tuple[str, ...],
    status: int,
    in_use: bool,
    stopping: bool,
    expected: Fate,
) -> None:
    ended = Ended(campaign(state, reason), events(*kinds), status, in_use, stopping)
    assert fate(ended) is expected


def test_deaths_count_from_the_last_progress() -> None:
    assert deaths(events("run-died", "run-died", "block-complete", "run-died")) == 1
    assert deaths(events()) == 0
    assert MOST_DEATHS > 1


@pytest.mark.parametrize(
    ("state", "reason", "attempts", "expected"),
    [
        ("created", "", 0, None),
        ("running", "", 3, None),
        ("finished", "", 0, Fate.FINISHED),
        ("cancelled", "", 1, Fate.CANCELLED),
        # Put on the queue again by somebody who knows that.
        ("paused", "asked to pause from x", 0, None),
        ("failed", "the baseline fails", 0, None),
        # Whoever ran it died before it could end the job.
        ("paused", "asked to pause from x", 1, Fate.PAUSED),
        ("failed", "the baseline fails", 1, Fate.FAILED),
        ("paused", "stopped by SIGTERM", 1, None),
    ],
)
def test_what_is_not_begun_again(
    state: str, reason: str, attempts: int, expected: Fate | None
) -> None:
    assert settled(campaign(state, reason), attempts) is expected
