"""Waiting until a paused campaign may continue."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.campaign.campaigns import SHORT, Campaign, Recorder, faster, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.report.samples import printed
from tuner.errors import ConflictError, StoreError
from tuner.model import Wish
from tuner.records.status import Presence, Status
from tuner.report.status import status_pages
from tuner.run import presence
from tuner.run.steering import steer
from tuner.run.waiting import wait
from tuner.services.simulated import SimulatedTestbed
from tuner.services.testbed import Unavailable
from tuner.states import CampaignState
from tuner.store import NewEvent, Store
from tuner.store.deletion import delete_campaign

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLOSED = Unavailable("outside the hours of testbed x (20:00 to 06:00)", NOW.replace(hour=20))


class Clock:
    """A clock that only sleeping advances; ``events``: what happens at which sleep."""

    def __init__(self, events: dict[int, Callable[[], object]] | None = None) -> None:
        self.time = NOW
        self.sleeps = 0
        self._events = events or {}

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.time += timedelta(seconds=seconds)
        self._events.get(self.sleeps, lambda: None)()


@pytest.fixture
def paused(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setattr(SimulatedTestbed, "unavailable", lambda testbed: CLOSED)
    campaign = begin(spec(faster(), **SHORT))
    assert campaign.run().campaign.state is CampaignState.PAUSED
    return campaign


def waited(
    campaign: Campaign,
    clock: Clock,
    until: datetime = NOW + timedelta(seconds=60),
    is_free: Callable[[], bool] = lambda: True,
) -> bool:
    return wait(
        campaign.store,
        campaign.id,
        until,
        Recorder(),
        is_free=is_free,
        now=clock.now,
        sleep=clock.sleep,
    )


def test_waiting_ends_when_the_testbed_may_be_used(paused: Campaign) -> None:
    clock = Clock()
    assert waited(paused, clock) is True
    assert clock.time == NOW + timedelta(seconds=60)
    assert paused.kinds()[-1] == "campaign-waits"


def test_the_status_lists_a_campaign_that_waits_and_whether_its_process_lives(
    paused: Campaign,
) -> None:
    listed: list[Status] = []
    clock = Clock({3: lambda: listed.append(presence.status(paused.store))})
    assert presence.status(paused.store).closed == ()
    assert waited(paused, clock) is True
    (one,) = listed[0].closed
    assert (one.campaign, one.name) == (paused.id, paused.store.campaign(paused.id).name)
    assert (one.pid, one.presence) == (os.getpid(), Presence.ALIVE)
    assert one.until == NOW + timedelta(seconds=60)
    table = printed(status_pages(listed[0])[1], 200)
    assert f"{os.getpid()} on {socket.gethostname()}" in table
    assert "at 2026-03-01T12:01:00Z" in table
    event = paused.store.events(paused.id)[-1]
    data = {**event.data, "start_ticks": 1}  # a process of another time with this number
    paused.store.add_event(paused.id, NewEvent(NOW, "campaign-waits", "it waits", data))
    status = presence.status(paused.store)
    assert status.closed[0].presence is Presence.DIED
    assert "died; resume it with 'fstune resume'" in printed(status_pages(status)[1], 200)
    _steer(paused.store, paused.id, Wish.PAUSE)
    assert presence.status(paused.store).closed == ()


def _steer(store: Store, campaign: str, wish: Wish) -> str:
    return steer(store, store.campaign(campaign), wish, "here", NOW)


def _again(store: Store, campaign: str) -> None:
    event = NewEvent(NOW, "campaign-started", "campaign resumed")
    store.move_campaign(campaign, CampaignState.RUNNING, "", event)


def _resume_elsewhere(store: Store, campaign: str) -> None:
    """Resume the campaign and pause it again between two looks."""
    _again(store, campaign)
    event = NewEvent(NOW, "campaign-paused", "campaign paused")
    store.move_campaign(campaign, CampaignState.PAUSED, "", event)


def _queue(store: Store, campaign: str) -> None:
    store.add_event(campaign, NewEvent(NOW, "campaign-queued", "on the queue"))


def _delete(store: Store, campaign: str) -> None:
    _steer(store, campaign, Wish.CANCEL)
    delete_campaign(store, campaign)


@pytest.mark.parametrize(
    "act",
    [
        lambda store, campaign: _steer(store, campaign, Wish.CANCEL),
        lambda store, campaign: _steer(store, campaign, Wish.PAUSE),
        _again,
        _resume_elsewhere,
        _queue,
        _delete,
    ],
    ids=["cancelled", "pause", "running", "resumed", "queued", "deleted"],
)
@pytest.mark.parametrize("at", [2, 12], ids=["early", "last"])
def test_waiting_ends_when_somebody_else_decides(
    paused: Campaign, act: Callable[[Store, str], object], at: int
) -> None:
    clock = Clock({at: lambda: act(paused.store, paused.id)})
    assert waited(paused, clock) is False
    assert clock.sleeps == at


def test_of_two_that_wait_the_later_one_continues(paused: Campaign) -> None:
    later: list[bool] = []
    clock = Clock({3: lambda: later.append(waited(paused, Clock()))})
    assert waited(paused, clock) is False
    assert later == [True]


def test_ctrl_c_ends_waiting_and_leaves_the_campaign_paused(paused: Campaign) -> None:
    clock = Clock({3: lambda: signal.raise_signal(signal.SIGINT)})
    assert waited(paused, clock) is False
    assert paused.store.campaign(paused.id).state is CampaignState.PAUSED
    assert paused.store.events(paused.id)[-1].message == "no longer waits: SIGINT"
    with pytest.raises(ConflictError, match="is paused; it is not running"):
        _steer(paused.store, paused.id, Wish.PAUSE)


def test_waiting_takes_at_least_one_look(paused: Campaign) -> None:
    """A time that has passed already must not let a process run in circles."""
    clock = Clock()
    assert waited(paused, clock, until=NOW - timedelta(hours=1)) is True
    assert clock.sleeps == 1


def test_a_testbed_that_others_use_when_the_time_has_come_is_waited_for(paused: Campaign) -> None:
    """It is looked at every minute, and said once."""
    answers = iter([False, False, True])
    clock = Clock()
    assert waited(paused, clock, is_free=lambda: next(answers)) is True
    assert clock.time == NOW + timedelta(seconds=60) + timedelta(minutes=2)
    assert paused.kinds()[-2:] == ["campaign-waits", "testbed-in-use"]


def test_waiting_for_a_testbed_that_others_use_ends_like_any_other(paused: Campaign) -> None:
    clock = Clock({20: lambda: _steer(paused.store, paused.id, Wish.CANCEL)})
    assert waited(paused, clock, is_free=lambda: False) is False
    assert clock.sleeps == 20


def test_waiting_outlasts_a_database_that_is_away(
    paused: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the moment when the time has come."""
    clock = Clock()
    away = range(3, 15)
    campaign = paused.store.campaign

    def answer(reference: str) -> object:
        if clock.sleeps in away:
            raise StoreError("the database does not respond")
        return campaign(reference)

    monkeypatch.setattr(paused.store, "campaign", answer)
    assert waited(paused, clock) is True
    assert clock.sleeps == away.stop
