"""Campaigns whose testbeds have hours: they pause outside them, and continue in the next ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.campaign.campaigns import SHORT, Campaign, Recorder, faster, spec
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tests.unit.campaign.several import several
from tuner.compose import conduct
from tuner.errors import ConflictError, InUseError, TestbedError
from tuner.model import Request, Wish
from tuner.run.resume_checks import putting_back
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated import kind as simulated_kind
from tuner.services.testbed import Unavailable
from tuner.states import CampaignState, EventKind
from tuner.store import NewEvent
from tuner.work.ending import JobEnd, RunEnd, continues_at, end_without_run, job_end

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
        def recover(self, campaign: str) -> list[str]:
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
def test_hosts_that_cannot_be_restored_outside_the_hours_are_reported(
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
        "not everything could be restored: root@fs9: no route to host; to only restore the hosts: "
        "fstune testbed restore FILE"
    )


@pytest.mark.slow
def test_hosts_are_restored_when_a_resumed_campaign_is_refused(
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
def test_hosts_are_restored_although_the_campaign_measures_with_something_else_now(
    begin: Begin, hours: Hours, restores: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It no longer waits for its hours then: another run would be refused too."""
    campaign = begin(spec(faster(), **SHORT))
    hours.left = {0: 6}
    campaign.run()
    monkeypatch.setattr("tuner.run.identity.ALPHA", 0.05)
    with pytest.raises(ConflictError, match="statistics") as refusal:
        campaign.run()
    assert campaign.store.campaign(campaign.id).state is CampaignState.PAUSED
    assert [of for _, of in restores] == [campaign.id]
    events = campaign.store.events(campaign.id)
    assert [event.kind for event in events[-2:]] == ["restored", EventKind.PAUSED]
    assert events[-1].message == f"campaign paused: {refusal.value}"
    assert continues_at(events) is None
    end = RunEnd(campaign.store.campaign(campaign.id), events, 4, in_use=False, stopping=False)
    assert job_end(end) is JobEnd.PAUSED


@pytest.mark.slow
def test_only_testbeds_that_were_used_are_restored(
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


@pytest.mark.slow
def test_a_testbed_that_was_left_out_is_used_from_when_its_hours_start(
    begin: Begin, hours: Hours
) -> None:
    """The run ends at once, and the next one opens all testbeds."""
    hours.closed = {1: CLOSED}
    campaign = begin(several(faster(), names=("a", "b")))
    open_after(campaign, hours, blocks=4)
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.PAUSED
    assert outcome.campaign.reason == "testbed a may be used now: the campaign continues on it too"
    assert outcome.until is not None
    assert outcome.until <= datetime.now(UTC)
    assert {block.testbed for block in campaign.blocks} == {"simulated b"}
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert {block.testbed for block in campaign.blocks} == {"simulated a", "simulated b"}


@pytest.mark.slow
def test_testbeds_with_different_hours_wait_for_the_next_that_may_be_used(
    begin: Begin, hours: Hours
) -> None:
    """Also for one that was left out at the start."""
    sooner = CLOSED.until - timedelta(hours=1)
    hours.closed = {1: Unavailable("outside the hours of testbed a (19:00 to 06:00)", sooner)}
    hours.left = {2: 4}
    outcome = begin(several(faster(), names=("a", "b"))).run()
    assert (outcome.campaign.state, outcome.until) == (CampaignState.PAUSED, sooner)


@pytest.mark.parametrize("patient", [True, False])
def test_a_host_that_others_use_is_waited_for_by_those_who_are_patient(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    """A worker is patient: all campaigns on its queue would fail one after another."""
    reason = "fs9 is in use by campaign c9 on elsewhere"

    def refuse(*_: object) -> None:
        raise InUseError(reason)

    monkeypatch.setattr(SimulatedTestbed, "open", refuse)
    campaign = begin(spec(faster(), **SHORT))
    record = campaign.store.campaign(campaign.id)
    before = datetime.now(UTC)
    outcome, _ = conduct(
        campaign.store, record, campaign.prepared(), Recorder(), keep_request=True, patient=patient
    )
    assert outcome.campaign.reason == reason
    events = campaign.store.events(campaign.id)
    end = job_end(RunEnd(outcome.campaign, events, 1, in_use=False, stopping=False))
    if patient:
        assert (outcome.campaign.state, outcome.error) == (CampaignState.PAUSED, None)
        assert outcome.until is not None
        assert outcome.until > before
        assert (end, continues_at(events)) == (JobEnd.WAITING, outcome.until)
        assert end_without_run(outcome.campaign, events) is None
    else:
        assert outcome.campaign.state is CampaignState.FAILED
        assert isinstance(outcome.error, InUseError)
        assert (end, outcome.until) == (JobEnd.FAILED, None)


def open_after(campaign: Campaign, hours: Hours, blocks: int) -> None:
    """Let all testbeds be usable once the campaign has so many blocks."""
    answer = hours.answer

    def changing(testbed: SimulatedTestbed) -> Unavailable | None:
        if len(campaign.blocks) >= blocks:
            hours.closed = {}
        return answer(testbed)

    hours.answer = changing  # type: ignore[method-assign]
