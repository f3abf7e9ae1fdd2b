"""Certificates are verified in fresh blocks, whichever configuration is in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pydantic import TypeAdapter

from api.verifying import VerificationDocument
from api.view import _best
from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.apply.failing import Broken, breaking
from tests.unit.apply.test_applying import die
from tests.unit.campaign.campaigns import THREADS, failing, faster, spec
from tests.unit.report.samples import printed
from tuner.apply.pages import verified_lines
from tuner.apply.verify_verdict import Verified
from tuner.apply.verifying import check_certified, for_requester, telling_failure, verify
from tuner.documents import MOST_NAME
from tuner.errors import (
    CampaignHalted,
    ConfigurationError,
    ConflictError,
    SpecError,
    TestbedError,
    WorkloadError,
)
from tuner.model import BASELINE, Campaign, Configuration, Event, Request, Trial, Value, Wish
from tuner.page.recommendations import Filters, known_recommendations
from tuner.page.report_builder import report_document
from tuner.page.snapshot import SnapshotCache
from tuner.plan.steps import RunBlock
from tuner.remote.records import checked, recommendation_of
from tuner.report.answer import claim, headline
from tuner.report.recommendation_document import (
    recommendation_document,
    recommendation_flags,
    recommendation_page,
)
from tuner.run.arm_runs import ArmRuns
from tuner.run.event_writer import EventWriter
from tuner.run.measuring import BlockRunner
from tuner.run.steering import refuse_verification
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated.testbed import _SimulatedEngine
from tuner.services.testbed import Unavailable
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState, EventKind, VerifyOutcome
from tuner.store import NewEvent, Store, problems
from tuner.store.verifications import Verifications


def measure(desk: Desk, campaign: Campaign, blocks: int = 4) -> tuple[Campaign, Verified]:
    answer = campaign.recommendation
    assert answer is not None
    destination = desk.destination(campaign)
    return verify(
        desk.actor, campaign, answer, answer.baseline, answer.configuration, destination, blocks
    )


def verification_of(desk: Desk, campaign: Campaign) -> Campaign:
    """The only other campaign."""
    (verification,) = [c for c in desk.store.campaigns() if c.id != campaign.id]
    return verification


def stop() -> None:
    raise KeyboardInterrupt("SIGINT")


@pytest.mark.slow
def test_the_result_is_reported_when_the_verification_is_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign(faster(-0.10))
    states, add = [], Store.add_event

    def look(store: Store, name: str, event: NewEvent) -> Event:
        if event.kind == EventKind.VERIFIED:
            states.append(store.campaign(str(event.data["campaign"])).state)
            assert not store.leases()
        return add(store, name, event)

    monkeypatch.setattr(Store, "add_event", look)
    measure(desk, campaign)
    assert states == [CampaignState.FINISHED]


def test_the_reported_result_names_the_request(desk: Desk) -> None:
    campaign = desk.campaign(faster(-0.10))
    answer, destination = campaign.recommendation, desk.destination(campaign)
    assert answer is not None
    before, after = answer.baseline, answer.configuration
    verification, _ = verify(desk.actor, campaign, answer, before, after, destination, 3, request=7)
    (event,) = desk.store.events(campaign.id, kinds={EventKind.VERIFIED})
    assert (event.data["request"], event.data["elsewhere"]) == (7, False)
    (event,) = desk.store.events(verification.id, kinds={EventKind.VERIFICATION})
    assert event.data == {"verifies": campaign.id, "request": 7}


def test_that_somebody_has_changed_the_settings_is_said_at_once_and_with_the_result(
    desk: Desk,
) -> None:
    campaign = desk.campaign(faster(-0.10))
    answer = campaign.recommendation
    assert answer is not None
    answer = replace(answer, baseline=Configuration.of({**ORIGINAL, THREADS: 100}))
    _, result = measure(desk, replace(campaign, recommendation=answer), 3)
    caveat = f"neither of the two configurations was in effect when it began: {THREADS} is 64"
    assert result.caveat == caveat
    assert f"warning: {caveat}" in desk.messages
    assert f"Caveat: {caveat}." in list(verified_lines(result))


def test_hosts_are_told_of_a_verification_before_they_are_opened(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, steps, opens = desk.campaign(faster(-0.10)), [], SimulatedTestbed.open

    def opening(*of: Any) -> Any:
        steps.append("open")
        return opens(*of)

    say = partial(steps.append, "say")  # as a class attribute it is no method: it gets no self
    monkeypatch.setattr(SimulatedTestbed, "say_verification", say, raising=False)
    monkeypatch.setattr(SimulatedTestbed, "open", opening)
    measure(desk, campaign, 3)
    assert steps == ["say", "open"]


def test_a_verification_is_recorded_in_the_name_of_its_requester(desk: Desk) -> None:
    campaign, verifications = desk.campaign(), Verifications(desk.store)

    def ask(data: Mapping[str, str | int | float | bool | None]) -> int:
        event = NewEvent(campaign.created, EventKind.VERIFY_REQUESTED, "asked", data)
        number = verifications.ask(campaign.id, event).number
        verifications.fail(campaign.id, number, "a test")
        return number

    number, other = ask({"blocks": 3, "asked_by": "somebody, over HTTP"}), ask({"blocks": 3})
    assert for_requester(desk.actor, campaign.id, number).by == "somebody, over HTTP"
    for request in (None, other, number + 1, 10**6):
        assert for_requester(desk.actor, campaign.id, request) == desk.actor


@pytest.mark.slow
def test_a_failed_request_is_recorded_with_its_reason(desk: Desk) -> None:
    campaign = desk.campaign(failing("start"))
    request_event = NewEvent(campaign.created, EventKind.VERIFY_REQUESTED, "somebody asked")
    request = Verifications(desk.store).ask(campaign.id, request_event).number
    with pytest.raises(ConfigurationError), telling_failure(desk.actor, campaign.id, request):
        measure(desk, campaign)
    event = Verifications(desk.store).of(campaign.id)[-1]
    assert (event.kind, event.data) == (EventKind.VERIFY_FAILED, {"request": request})
    assert event.message.startswith("not verified: the recommended configuration fails: ")
    with pytest.raises(ConfigurationError), telling_failure(desk.actor, campaign.id, None):
        measure(desk, campaign)
    assert Verifications(desk.store).of(campaign.id)[-1] == event


def test_a_later_answer_does_not_certify_what_was_applied(desk: Desk) -> None:
    campaign = desk.campaign()
    application, answer = desk.apply(campaign), campaign.recommendation
    assert answer is not None
    check_certified(application, answer)
    later = replace(answer, configuration=answer.baseline)
    with pytest.raises(ConflictError, match="now recommends another configuration"):
        check_certified(application, later)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"fileserver.spare_threads": 3}, "no search space of the campaign has fileserver.spare_"),
        ({"fileserver.sync_behavior": "later"}, "fileserver: sync_behavior: 'later' is not one of"),
    ],
)
@pytest.mark.parametrize("whose", ["configuration", "baseline"])
def test_settings_that_the_search_spaces_no_longer_have_are_refused_before_anything_is_stored(
    desk: Desk, settings: dict[str, Value], why: str, whose: str
) -> None:
    campaign = desk.campaign()
    answer = campaign.recommendation
    assert answer is not None
    old = Configuration.of(getattr(answer, whose).as_dict() | settings)
    if whose == "baseline":
        answer = replace(answer, baseline=old)
    else:
        answer = replace(answer, configuration=old)
    with pytest.raises(SpecError, match=f"the recommendation cannot be verified: {why}"):
        measure(desk, replace(campaign, recommendation=answer))
    assert desk.store.campaigns() == [campaign]
    assert desk.events(campaign)[-1] != EventKind.VERIFIED


def test_what_was_found_beyond_the_limits_of_a_program_can_be_measured(desk: Desk) -> None:
    beyond = {THREADS: 30000}
    campaign_spec = spec(faster(-0.10), found=ORIGINAL | beyond)
    campaign = recommending(desk.store, campaign_spec, ORIGINAL | beyond, CANDIDATE)
    verification, _ = measure(desk, campaign, 3)
    assert verification.state is CampaignState.FINISHED


@pytest.mark.slow
@pytest.mark.parametrize("applied", [False, True])
def test_a_certificate_that_holds(desk: Desk, applied: bool) -> None:
    campaign = desk.campaign(faster(-0.10))
    if applied:
        desk.apply(campaign)
    verification, result = measure(desk, campaign)
    assert result.outcome is VerifyOutcome.HOLDS
    assert result.lower < 0.9 < result.upper
    assert result.blocks == 4
    assert result.caveat == ""
    assert not any("neither" in message for message in desk.messages)
    assert desk.in_force(campaign) == (CANDIDATE if applied else ORIGINAL)
    assert verification.state is CampaignState.FINISHED
    assert verification.baseline is not None
    assert verification.baseline.as_dict() == ORIGINAL
    assert len(desk.store.blocks(verification.id)) == 4
    assert "verified" in desk.events(campaign)
    assert problems(desk.store) == []


@pytest.mark.slow
def test_a_verification_is_no_certified_recommendation(desk: Desk) -> None:
    campaign = desk.campaign(faster(-0.10))
    verification, _ = measure(desk, campaign)
    listed = known_recommendations(desk.store, Filters(), 10)
    assert [one.campaign for one in listed] == [campaign.id]
    answer = verification.recommendation
    assert answer is not None
    sentence = f"Verification: the certificate of campaign {campaign.id} holds"
    document = recommendation_document(verification, answer)
    report = report_document(SnapshotCache(desk.store), verification.id)
    assert report.answer == sentence
    assert report.sure == [document.claim]
    page_text = _best(SnapshotCache(desk.store).of(verification.id), {})
    assert page_text == (sentence, document.claim)
    assert "Student's t over 4 fresh blocks" in document.claim
    # A server's document is enough to recognise it.
    for each in (answer, recommendation_of(document)):
        page = printed(recommendation_page(verification, each))
        assert sentence in page
        assert document.claim in page
        assert "Recommended:" not in page
        assert "False-alarm risk" not in page


@pytest.mark.slow
def test_the_verification_of_a_campaign_with_the_longest_name_can_be_read(desk: Desk) -> None:
    longest = spec(faster(-0.10), name="n" * MOST_NAME, found=ORIGINAL)
    campaign = recommending(desk.store, longest, ORIGINAL, CANDIDATE)
    verification, _ = measure(desk, campaign)
    assert CampaignSpec.from_json(verification.spec).name == f"verify {'n' * (MOST_NAME - 7)}"


def test_a_certificate_that_no_longer_holds(desk: Desk) -> None:
    campaign = desk.campaign(faster(+0.10))
    verification, result = measure(desk, campaign)
    assert result.outcome is VerifyOutcome.NO_LONGER_HOLDS
    assert verification.recommendation is not None
    assert verification.recommendation.configuration.as_dict() == ORIGINAL
    assert headline(verification.recommendation).plain.endswith(f"{campaign.id} no longer holds")
    remark, *_ = recommendation_flags(verification.recommendation).splitlines()
    assert remark.endswith("no longer holds; these are the options from before it was applied")
    assert "slower than what was there before" in claim(verification.recommendation)


@pytest.mark.slow
def test_failed_runs_of_what_is_verified_are_a_caveat(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, runs = ArmRuns.measure, Counter[int]()

    def run(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        runs[trial.number] += 1
        if trial.number != BASELINE and step.number < 3 and not which:
            raise WorkloadError("short-read")
        return real(runner, step, position, trial, which)

    monkeypatch.setattr(ArmRuns, "measure", run)
    campaign = desk.campaign(faster(-0.10))
    verification, result = measure(desk, campaign)
    assert result.caveat == (
        "2 of 6 runs of this configuration failed, and were repeated or left out; 0 of 4 of the "
        "baseline's did"
    )
    assert runs == {BASELINE: 4, 1: 6}
    assert list(verified_lines(result))[-1] == f"Caveat: {result.caveat}."
    (event,) = desk.store.events(campaign.id, kinds={EventKind.VERIFIED})
    assert VerificationDocument.of(event).caveat == result.caveat
    assert verification.recommendation is not None
    note = f"in this verification, {result.caveat}"
    assert note in verification.recommendation.notes
    # What a server tells is what is printed.
    document = VerificationDocument.of(event).model_dump(mode="json")
    assert checked(TypeAdapter(Verified), document) == result
    del document["caveat"]  # an earlier release
    assert checked(TypeAdapter(Verified), document) == replace(result, caveat="")


def test_a_configuration_that_does_not_run_fails_the_verification(desk: Desk) -> None:
    campaign = desk.campaign(failing("start"))
    with pytest.raises(ConfigurationError, match="the recommended configuration fails"):
        measure(desk, campaign)
    verification = verification_of(desk, campaign)
    assert verification.state is CampaignState.FAILED
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_stop_signal_ends_it_and_restores_the_configuration_in_force(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign(faster(-0.10))
    desk.apply(campaign)
    with breaking(monkeypatch, BlockRunner, "run", stop, after=2), pytest.raises(KeyboardInterrupt):
        measure(desk, campaign)
    verification = verification_of(desk, campaign)
    assert verification.state is CampaignState.CANCELLED
    assert desk.in_force(campaign) == CANDIDATE
    assert problems(desk.store) == []


@pytest.mark.slow
def test_a_verification_cannot_be_resumed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = desk.campaign(faster(-0.10))
    measure(desk, campaign)
    with (
        breaking(monkeypatch, BlockRunner, "run", die, after=1),
        breaking(monkeypatch, EventWriter, "move", die, after=1),
        pytest.raises(Broken),
    ):
        measure(desk, campaign)
    (killed,) = (c for c in desk.store.campaigns() if c.state is CampaignState.RUNNING)
    assert desk.store.running().verifications == {killed.id}
    with pytest.raises(ConflictError, match="run 'fstune verify' again"):
        refuse_verification(desk.store, killed.id)
    refuse_verification(desk.store, campaign.id)
    assert desk.store.campaign("last").id == campaign.id


def test_a_campaign_with_comparisons_is_verified(desk: Desk) -> None:
    campaign_spec = spec(
        faster(-0.10), found=ORIGINAL, first=(), compare={"more": {"fileserver": {"threads": 200}}}
    )
    campaign = recommending(desk.store, campaign_spec, ORIGINAL, CANDIDATE)
    verification, _ = measure(desk, campaign, 3)
    assert not CampaignSpec.from_json(verification.spec).compare


@pytest.mark.slow
def test_a_verification_stops_outside_the_hours_of_the_testbed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign(faster(-0.10))
    closed = Unavailable("outside the hours of the testbed", datetime.now(UTC))
    answers = iter([None, closed])
    monkeypatch.setattr(SimulatedTestbed, "unavailable", lambda testbed: next(answers))
    with pytest.raises(CampaignHalted, match="outside the hours"):
        measure(desk, campaign)
    verification = desk.store.campaigns()[0]
    assert verification.state is CampaignState.FAILED
    assert len(desk.store.blocks(verification.id)) == 1
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
@pytest.mark.parametrize("wish", Wish)
def test_a_request_to_stop_ends_it_and_restores_the_configuration_in_force(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, wish: Wish
) -> None:
    def ask() -> None:
        verification = verification_of(desk, campaign)
        event = NewEvent(verification.created, "asked", "a request")
        desk.store.ask(verification.id, Request(wish, "the page", verification.created), event)

    campaign = desk.campaign(faster(-0.10))
    desk.apply(campaign)
    with (
        breaking(monkeypatch, BlockRunner, "run", ask, after=1),
        pytest.raises(KeyboardInterrupt, match=f"a request to {wish} from the page"),
    ):
        measure(desk, campaign)
    verification = verification_of(desk, campaign)
    assert verification.state is CampaignState.CANCELLED
    assert verification.reason == f"stopped by a request to {wish} from the page"
    assert desk.in_force(campaign) == CANDIDATE
    assert problems(desk.store) == []


@pytest.mark.slow
def test_a_run_that_does_not_end_keeps_nothing_from_being_restored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def survive() -> None:
        raise TestbedError("a run is still there")

    campaign = desk.campaign(faster(-0.10))
    desk.apply(campaign)
    with (
        breaking(monkeypatch, _SimulatedEngine, "end_runs", survive),
        breaking(monkeypatch, BlockRunner, "run", stop, after=2),
        pytest.raises(KeyboardInterrupt),
    ):
        measure(desk, campaign)
    assert desk.in_force(campaign) == CANDIDATE
