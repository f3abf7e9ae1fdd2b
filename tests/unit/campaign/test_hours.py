"""Campaigns whose testbeds have hours: they pause outside them, and continue in the next ones."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.campaign.campaigns import SHORT, Campaign, Recorder, faster, spec
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tests.unit.campaign.several import several
from tests.unit.report.samples import printed
from tuner.errors import ConflictError, TestbedError
from tuner.model import Request, Wish
from tuner.records.status import Presence, Status
from tuner.report.status import status_pages
from tuner.run import presence
from tuner.run.resuming import putting_back
from tuner.run.steering import steer
from tuner.run.waiting import wait
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated import kind as simulated_kind
from tuner.services.testbed import Unavailable
from tuner.states import CampaignState
from tuner.store import NewEvent, Store
from tuner.store.deletion import delete_campaign
from tuner.work.ending import JobEnd, RunEnd, continues_at, job_end

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REASON = "outside the hours of testbed x (20:00 to 06:00)"
CLOSED = Unavailable(REASON, NOW.replace(hour=20))


@dataclass
class Hours:
    """Whether the simulated testbeds may be used, by seed of their noise; 0 stands for all."""

    closed: dict[int, Unavailable] = field(default_factory=dict)
    #: Number of questions until the hours end, likewise.
    left: dict[int, int] = field(default_factory=dict)

    def answer(self, testbed: SimulatedTestbed) -> Unavailable | None:
        seed = testbed.world.seed
        for one in {0, seed} & self.left.keys():
            self.left[one] -= 1
            if self.left[one] < 0:
                return CLOSED
        return self.closed.get(0) or self.closed.get(seed)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours = Hours()
    monkeypatch.setattr(SimulatedTestbed, "unavailable", lambda testbed: hours.answer(testbed))
    return hours


def test_a_campaign_begun_outside_the_hours_pauses_before_it_opens_its_testbed(
    begin: Begin, hours: Hours
) -> None:
    hours.closed = {0: CLOSED}
    campaign = begin(spec(faster(), **SHORT))
    outcome = campaign.run()
    assert (outcome.campaign.state, outcome.campaign.reason) == (CampaignState.PAUSED, REASON)
    assert (outcome.until, outcome.error, outcome.restored) == (CLOSED.until, None, ())
    assert campaign.blocks == []
    assert "testbed-ready" not in campaign.kinds()
    hours.closed = {}
    assert campaign.run().campaign.state is CampaignState.FINISHED


@pytest.fixture
def restores(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Let the simulated testbeds have hosts, which can be restored once. Returns who restores
    which.
    """
    calls: list[tuple[int, str]] = []

    class WithHosts(SimulatedTestbed):
        def put_back(self, campaign: str) -> list[str]:
            calls.append((self.world.seed, campaign))
            if len(calls) > 1:
                raise TestbedError("root@fs9: no route to host")
            return ["fileserver on fs9 restored"]

    monkeypatch.setattr(simulated_kind, "SimulatedTestbed", WithHosts)
    return calls


@pytest.mark.slow
def test_a_resumed_campaign_puts_its_hosts_back_outside_the_hours_too(
    begin: Begin, hours: Hours, restores: list[tuple[int, str]]
) -> None:
    """The last run may have been cut off. A campaign that has never begun has changed nothing."""
    hours.closed = {0: CLOSED}
    campaign = begin(spec(faster(), **SHORT))
    for _ in range(2):
        assert campaign.run().campaign.state is CampaignState.PAUSED
    assert restores == []
    hours.closed, hours.left = {}, {0: 4}
    campaign.run()
    assert restores == []  # it was open, and restored in the usual way
    hours.closed = {0: CLOSED}
    outcome = campaign.run()
    assert [of for _, of in restores] == [campaign.id]
    assert outcome.restored == ("fileserver on fs9 restored",)
    assert (outcome.campaign.state, outcome.until) == (CampaignState.PAUSED, CLOSED.until)
    assert campaign.kinds()[-2:] == ["restored", "campaign-paused"]


@pytest.mark.slow
def test_hosts_that_cannot_be_put_back_outside_the_hours_are_reported(
    begin: Begin, hours: Hours, restores: list[tuple[int, str]]
) -> None:
    campaign = begin(spec(faster(), **SHORT))
    hours.left = {0: 4}
    campaign.run()
    campaign.run()
    outcome = campaign.run()
    assert len(restores) == 2
    assert (outcome.campaign.state, outcome.until) == (CampaignState.PAUSED, CLOSED.until)
    event = campaign.store.events(campaign.id)[-2]
    assert event.kind == "restore-failed"
    assert event.message == (
        "not everything could be put back: root@fs9: no route to host; to only put hosts back: "
        "fstune testbed restore FILE"
    )


@pytest.mark.slow
def test_hosts_are_put_back_when_a_resumed_campaign_is_refused(
    begin: Begin, hours: Hours, restores: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(spec(faster(), **SHORT))
    hours.left = {0: 4}
    campaign.run()
    hours.left = {}

    def refuse(*_: object) -> None:
        raise ConflictError("fs9: its clock is 700 s behind")

    monkeypatch.setattr(SimulatedTestbed, "open", refuse)
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert [of for _, of in restores] == [campaign.id]
    assert "restored" in campaign.kinds()[-3:]


@pytest.mark.slow
def test_only_testbeds_that_were_used_are_put_back(
    begin: Begin, hours: Hours, restores: list[tuple[int, str]]
) -> None:
    campaign = begin(several(faster(), names=("a", "b")))
    hours.closed, hours.left = {1: CLOSED}, {2: 4}
    campaign.run()
    assert restores == []
    hours.closed = {0: CLOSED}
    campaign.run()
    assert restores == [(2, campaign.id)]


@pytest.mark.parametrize("by_hand", [True, False])
def test_the_advice_names_the_command_for_testbed_files(by_hand: bool) -> None:
    advice = putting_back("c1", CampaignState.FAILED, by_hand=by_hand)
    assert "fstune resume c1" in advice
    assert ("fstune testbed restore FILE" in advice) is by_hand


@pytest.mark.slow
@ON_BOTH
def test_a_campaign_pauses_when_the_hours_end_and_loses_nothing(begin: Begin, hours: Hours) -> None:
    hours.left = {0: 6}
    campaign = begin(spec(faster(), **SHORT))
    outcome = campaign.run()
    assert (outcome.campaign.reason, outcome.until) == (REASON, CLOSED.until)
    assert campaign.testbed is not None
    assert outcome.restored
    before = campaign.blocks
    assert len(before) == 5  # the first question comes before it opens
    end = job_end(RunEnd(outcome.campaign, campaign.store.events(campaign.id), 130, False, False))
    assert end is JobEnd.WAITING
    assert continues_at(campaign.store.events(campaign.id)) == CLOSED.until
    hours.left = {}
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert campaign.blocks[: len(before)] == before


@pytest.mark.slow
def test_one_of_several_testbeds_that_must_not_be_used_is_left_out(
    begin: Begin, hours: Hours
) -> None:
    hours.closed = {1: CLOSED}
    campaign = begin(several(faster(), names=("a", "b")))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED
    assert {block.testbed for block in campaign.blocks} == {"simulated b"}
    lost = [e for e in campaign.store.events(campaign.id) if e.kind == "testbed-lost"]
    assert [e.message for e in lost] == [f"a: no longer used: {REASON}"]


@pytest.mark.slow
@pytest.mark.parametrize("questions", [3, 4])
def test_the_hours_of_one_of_several_testbeds_may_end_at_any_time(
    begin: Begin, hours: Hours, questions: int
) -> None:
    hours.left = {1: questions}
    campaign = begin(several(faster(), names=("a", "b")))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED, outcome.campaign.reason
    assert {block.testbed for block in campaign.blocks[-3:]} == {"simulated b"}


@pytest.mark.parametrize("wish", list(Wish))
@pytest.mark.parametrize("fails", [False, True])
def test_a_request_made_just_before_the_end_of_a_run_is_carried_out(
    begin: Begin, hours: Hours, monkeypatch: pytest.MonkeyPatch, wish: Wish, fails: bool
) -> None:
    """The campaign does not continue with the next hours, and a failure does not keep it open."""
    campaign = begin(spec(faster(), **SHORT))
    hours.left = {0: 4}

    def answer(testbed: SimulatedTestbed) -> Unavailable | None:
        if (closed := hours.answer(testbed)) is not None:
            event = NewEvent(NOW, f"{wish}-requested", "from elsewhere")
            campaign.store.ask(campaign.id, Request(wish, "elsewhere", NOW), event)
            if fails:
                raise TestbedError("it broke")
        return closed

    monkeypatch.setattr(SimulatedTestbed, "unavailable", answer)
    outcome = campaign.run()
    assert outcome.until is None
    ends = {Wish.PAUSE: CampaignState.PAUSED, Wish.CANCEL: CampaignState.CANCELLED}
    failed = fails and wish is Wish.PAUSE
    assert outcome.campaign.state is (CampaignState.FAILED if failed else ends[wish])
    assert (outcome.error is not None) == fails
    assert campaign.store.request(campaign.id) is None
    assert continues_at(campaign.store.events(campaign.id)) is None


@pytest.mark.slow
def test_several_testbeds_wait_for_the_first_that_may_be_used(begin: Begin, hours: Hours) -> None:
    sooner = CLOSED.until - timedelta(hours=1)
    hours.closed = {
        1: CLOSED,
        2: Unavailable("outside the hours of testbed b (19:00 to 06:00)", sooner),
    }
    outcome = begin(several(faster(), names=("a", "b"))).run()
    assert (outcome.campaign.reason, outcome.until) == (REASON, sooner)


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
def paused(begin: Begin, hours: Hours) -> Campaign:
    hours.closed = {0: CLOSED}
    campaign = begin(spec(faster(), **SHORT))
    assert campaign.run().campaign.state is CampaignState.PAUSED
    return campaign


def waited(campaign: Campaign, clock: Clock) -> bool:
    until = NOW + timedelta(seconds=60)
    recorder = Recorder()
    return wait(campaign.store, campaign.id, until, recorder, now=clock.now, sleep=clock.sleep)


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
