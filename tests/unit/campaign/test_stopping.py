"""Stop signals at many points: the campaign pauses, restores the testbed and can be resumed."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.campaign.campaigns import SHORT, Campaign, Recorder, faster, sends, spec
from tests.unit.campaign.conftest import Begin
from tuner.compose import conduct
from tuner.interruption import check
from tuner.model import Answer, Configuration, Event, Measurement, Request, Wish
from tuner.run.runner import RunOutcome
from tuner.services.simulated import testbed as simulated
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState
from tuner.stop_signals import FINISHING, STOPPING, holding_off_stops, stop_signals
from tuner.store import NewEvent, Store
from tuner.work.ending import TAKEN, JobEnd, RunEnd, job_end

pytestmark = pytest.mark.slow

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ORIGINAL = Configuration.of({"fileserver.dir_buffers": 100})
STATE_BY_WISH = {Wish.PAUSE: CampaignState.PAUSED, Wish.CANCEL: CampaignState.CANCELLED}


def small_campaign(**sections: Any) -> CampaignSpec:
    return spec(faster(), found=ORIGINAL.as_dict(), **{**SHORT, **sections})


def measurements(campaign: Campaign) -> list[tuple[int, Measurement]]:
    """Return the measurements so far, each with its block."""
    return [(block.number, m) for block in campaign.blocks for m in block.measurements]


def check_pause(campaign: Campaign, outcome: RunOutcome, before: list[Any]) -> None:
    """Check that a campaign is paused and restored, and has the measurements ``before``."""
    assert outcome.campaign.state is CampaignState.PAUSED
    assert campaign.testbed is not None
    assert campaign.testbed.settings == ORIGINAL
    assert not any(b.state is BlockState.RUNNING for b in campaign.blocks)
    assert measurements(campaign)[: len(before)] == before


@pytest.mark.parametrize(
    ("number", "points"),
    [
        (signal.SIGINT, [2, 9, 27, 60]),
        (signal.SIGTERM, [3, 14, 41, 45]),
        (signal.SIGHUP, [5, 20, 86]),
    ],
)
def test_a_signal_pauses_restores_and_loses_nothing(
    begin: Begin, number: signal.Signals, points: Sequence[int]
) -> None:
    campaign = begin(small_campaign(stop="budget"))
    before: list[Any] = []
    for at in points:
        with stop_signals():
            outcome = campaign.run(sends(at, number))
        assert number.name in outcome.campaign.reason
        check_pause(campaign, outcome, before)
        before = measurements(campaign)

    with stop_signals():
        resumed = campaign.run()
    assert resumed.campaign.state is CampaignState.FINISHED
    assert resumed.campaign.recommendation is not None
    assert resumed.campaign.recommendation.answer is Answer.RECOMMENDED
    after = measurements(campaign)
    assert after[: len(before)] == before
    assert len({(n, m.trial) for n, m in after}) == len(after)


def test_a_signal_that_is_lost_on_its_way_pauses_at_the_next_safe_point(begin: Begin) -> None:
    """As in a finalizer, or while a compiled module is imported, where Python drops exceptions."""
    campaign = begin(small_campaign())
    before: list[Any] = []
    for at in (4, 30, 40):
        lost: list[int] = []

        def each(count: int, at: int = at, lost: list[int] = lost) -> None:
            if count == at:
                with suppress(KeyboardInterrupt):
                    os.kill(os.getpid(), signal.SIGTERM)
                lost.append(count)

        with stop_signals():  # a request to the previous run does not apply to this one
            outcome = campaign.run(Recorder(each))
        assert lost
        assert "SIGTERM" in outcome.campaign.reason
        check_pause(campaign, outcome, before)
        before = measurements(campaign)
    with stop_signals():
        assert campaign.run().campaign.state is CampaignState.FINISHED
    assert before == measurements(campaign)[: len(before)]


def test_several_signals_at_once_are_one_request(begin: Begin) -> None:
    """Closing a terminal sends more than one."""
    campaign = begin(small_campaign())
    for at in (4, 30, 40):
        with stop_signals():
            outcome = campaign.run(sends(at, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP))
        check_pause(campaign, outcome, [])


def test_a_signal_while_the_testbed_is_restored_waits(begin: Begin) -> None:
    campaign = begin(small_campaign())
    recorder = Recorder()

    def each(count: int) -> None:
        if recorder.activities and recorder.activities[-1].startswith("restoring"):
            recorder.activities.append("")
            os.kill(os.getpid(), signal.SIGINT)

    recorder.each = each
    with stop_signals():
        outcome = campaign.run(recorder)
    assert outcome.campaign.state is CampaignState.FINISHED
    assert any("restoring the testbed first" in activity for activity in recorder.activities)
    assert campaign.testbed is not None
    assert campaign.testbed.settings == ORIGINAL


def test_a_stop_just_after_a_write(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written counts, although no observer has been notified of it."""
    campaign = begin(small_campaign())
    for method in ("move_campaign", "add_trials", "begin_block", "add_measurement"):
        real = getattr(Store, method)

        def write(
            *arguments: object, real: Callable[..., object] = real, **options: object
        ) -> None:
            monkeypatch.undo()
            real(*arguments, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(Store, method, write)
        outcome = campaign.run()
        assert getattr(Store, method) is real, "it did not write"
        assert outcome.campaign.state is CampaignState.PAUSED
        assert not any(b.state is BlockState.RUNNING for b in campaign.blocks)
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_a_stop_before_the_campaign_has_begun(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(small_campaign())

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "void_running_blocks", stop)
    assert campaign.run().campaign.state is CampaignState.CREATED
    monkeypatch.undo()
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_pausing_again_and_again_never_ends_a_campaign(begin: Begin) -> None:
    campaign = begin(small_campaign())
    for _ in range(7):
        armed = Recorder()

        def each(count: int, recorder: Recorder = armed) -> None:
            if recorder.events and recorder.events[-1].kind == "block-started":
                recorder.each = lambda count: None
                raise KeyboardInterrupt

        armed.each = each
        assert campaign.run(armed).campaign.state is CampaignState.PAUSED
    assert len([b for b in campaign.blocks if b.state is BlockState.VOID]) == 7
    assert campaign.run().campaign.state is CampaignState.FINISHED


def requested_of_a_killed_run(begin: Begin, wish: Wish) -> Campaign:
    """Return a campaign whose run was asked to end, and killed before its next safe point."""
    campaign = begin(small_campaign())
    event = NewEvent(datetime.now(UTC), "campaign-started", "it runs")
    campaign.store.move_campaign(campaign.id, CampaignState.RUNNING, "", event)
    requested = NewEvent(datetime.now(UTC), f"{wish}-requested", "asked")
    campaign.store.ask(campaign.id, Request(wish, "desk", requested.at), requested)
    return campaign


@pytest.mark.parametrize("wish", list(Wish))
def test_a_run_that_nobody_asked_for_carries_out_the_request_to_a_killed_one(
    begin: Begin, wish: Wish
) -> None:
    campaign = requested_of_a_killed_run(begin, wish)
    outcome = campaign.run()
    assert outcome.campaign.state is STATE_BY_WISH[wish]
    assert outcome.campaign.reason == f"{wish} requested from desk"
    assert campaign.blocks == []
    assert "testbed-ready" in campaign.kinds()
    assert campaign.testbed is not None
    assert campaign.testbed.settings == ORIGINAL
    assert campaign.store.request(campaign.id) is None


def test_a_resume_by_a_person_drops_the_request_to_a_killed_run(begin: Begin) -> None:
    campaign = requested_of_a_killed_run(begin, Wish.CANCEL)
    record = campaign.store.campaign(campaign.id)
    outcome, _ = conduct(campaign.store, record, campaign.prepared(), Recorder())
    assert outcome.campaign.state is CampaignState.FINISHED


@pytest.mark.parametrize("wish", list(Wish))
def test_a_stop_signal_does_not_replace_the_request_to_a_killed_run(
    begin: Begin, wish: Wish
) -> None:
    """Otherwise the next worker would continue what was paused by this one's end."""
    campaign = requested_of_a_killed_run(begin, wish)
    with stop_signals():
        outcome = campaign.run(sends(1, signal.SIGTERM))
    assert outcome.campaign.state is STATE_BY_WISH[wish]
    if wish is Wish.PAUSE:
        took = Event(0, outcome.campaign.updated, TAKEN, "taken")
        last = campaign.store.events(campaign.id)[-1]
        end = RunEnd(outcome.campaign, [took, last], 130, in_use=False, stopping=True)
        assert job_end(end) is JobEnd.PAUSED


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
        with holding_off_stops(lambda message: None):
            os.kill(os.getpid(), signal.SIGTERM)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_terminal_that_closes_does_not_matter_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_was_held_off_takes_effect_afterwards() -> None:
    with stop_signals():
        with holding_off_stops(lambda message: None):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            check()
    check()


def test_a_signal_that_python_drops_is_raised_later_and_not_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with stop_signals():
        Finalized()
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            check()
    assert printed == []


def test_other_threads_leave_signals_alone() -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            with stop_signals(), holding_off_stops(lambda message: None):
                pass
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert problems == []


@pytest.fixture
def in_run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that sends signals during the ``at``-th run of the workload.

    It returns a list that receives the runs that ended.
    """

    def prepare(at: int, *numbers: signal.Signals) -> list[str]:
        starts, ends = itertools.count(1), list[str]()
        real = simulated._SimulatedEngine.report

        def run(self: Any, run_id: str) -> Any:
            if next(starts) == at:
                for number in numbers:
                    os.kill(os.getpid(), number)
            report = real(self, run_id)
            ends.append(run_id)
            return report

        monkeypatch.setattr(simulated._SimulatedEngine, "report", run)
        return ends

    return prepare


@pytest.mark.parametrize("at", [1, 2, 3, 11])
def test_the_first_ctrl_c_lets_the_current_run_finish(
    begin: Begin, in_run: Callable[..., list[str]], at: int
) -> None:
    campaign = begin(small_campaign())
    messages: list[str] = []
    ends = in_run(at, signal.SIGINT)
    with stop_signals(messages.append):
        outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.PAUSED
    assert "SIGINT" in outcome.campaign.reason
    assert messages == [f"SIGINT: {FINISHING}"]
    assert len(ends) == at
    assert sum(len(block.measurements) for block in campaign.blocks) == at
    last = campaign.blocks[-1]
    whole = len(last.measurements) == len(last.order)
    assert last.state is (BlockState.COMPLETE if whole else BlockState.VOID)
    assert campaign.testbed is not None
    assert campaign.testbed.settings == ORIGINAL
    with stop_signals():
        assert campaign.run().campaign.state is CampaignState.FINISHED


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_cuts_the_run_off(
    begin: Begin,
    in_run: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    second: signal.Signals,
) -> None:
    """That of a service manager at once; a second Ctrl-C once it no longer counts as the same
    request.
    """
    if second is signal.SIGINT:
        monkeypatch.setattr("tuner.stop_signals._SAME_REQUEST_S", 0.0)
    campaign = begin(small_campaign())
    messages: list[str] = []
    ends = in_run(2, signal.SIGINT, second)
    with stop_signals(messages.append):
        outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.PAUSED
    assert second.name in outcome.campaign.reason
    assert messages == [f"SIGINT: {FINISHING}", f"{second.name}: {STOPPING}"]
    assert len(ends) == 1
    assert sum(len(block.measurements) for block in campaign.blocks) == 1
    assert campaign.testbed is not None
    assert campaign.testbed.settings == ORIGINAL
    with stop_signals():
        assert campaign.run().campaign.state is CampaignState.FINISHED


def test_ctrl_c_again_and_again_within_a_second_stops_too(
    begin: Begin, in_run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated Ctrl-C takes effect once the first request is a second old."""
    seconds = itertools.count(100.0, 0.4)
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr("tuner.stop_signals.time", clock)
    campaign = begin(small_campaign())
    messages: list[str] = []
    ends = in_run(2, *[signal.SIGINT] * 4)
    with stop_signals(messages.append):
        assert campaign.run().campaign.state is CampaignState.PAUSED
    assert messages == [f"SIGINT: {FINISHING}", f"SIGINT: {STOPPING}"]
    assert len(ends) == 1


def test_ctrl_c_where_nothing_is_measured_stops_now(begin: Begin) -> None:
    campaign = begin(small_campaign())
    messages: list[str] = []
    with stop_signals(messages.append):
        outcome = campaign.run(sends(2, signal.SIGINT))
    assert outcome.campaign.state is CampaignState.PAUSED
    assert messages == [f"SIGINT: {STOPPING}"]
    assert "a block in progress is measured again" in STOPPING
