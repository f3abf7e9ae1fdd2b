"""Changes that somebody else makes on the testbed of an application do not lock it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.apply.failing import Broken, breaking
from tests.unit.apply.test_applying import cut_off, die, interrupt
from tests.unit.campaign.campaigns import THREADS, spec
from tuner.apply.actor import failed, finish
from tuner.apply.applying import carry_out, make_plan, roll_back
from tuner.apply.open_testbed import OpenTestbed
from tuner.errors import ConflictError, StalePlanError, TestbedError
from tuner.identifiers import new_application_id
from tuner.model import Campaign, Value
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated.document import SimulatedSection
from tuner.services.simulated.keeper import Keeper
from tuner.services.target import Target
from tuner.spec.campaign import CampaignSpec
from tuner.states import ApplicationState
from tuner.store import NewEvent, Store

STATES = ApplicationState


def keeper_of(desk: Desk, campaign: Campaign) -> Keeper:
    sections = CampaignSpec.from_json(campaign.spec).sections
    section = sections[0].section
    assert isinstance(section, SimulatedSection)
    return Keeper.of(section, desk.directory)


def change_elsewhere(desk: Desk, campaign: Campaign, threads: int) -> dict[str, Value]:
    """Have somebody else change the fileserver; return the settings then in effect."""
    keeper = keeper_of(desk, campaign)
    keeper.change("fileserver", {}, {"threads": threads})
    keeper.keep("fileserver", "somebody-else")
    return keeper.initial(ORIGINAL)


@pytest.mark.slow
def test_a_stale_plan_changes_nothing_and_locks_nothing(desk: Desk) -> None:
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    now = change_elsewhere(desk, campaign, 99)
    with pytest.raises(StalePlanError, match=r"fileserver.threads changed\): make a new plan"):
        carry_out(desk.actor, planned)
    assert desk.actor.applications.get(planned.id).state is STATES.FAILED
    assert desk.in_force(campaign) == now
    assert not [
        message for message in desk.messages if message.startswith(("setting", "restoring"))
    ]
    applied = desk.apply(campaign)
    assert desk.in_force(campaign) == CANDIDATE
    assert roll_back(desk.actor, applied).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == now


@pytest.mark.slow
def test_an_interrupted_application_is_settled_although_something_else_is_in_effect(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    planned = cut_off(desk, monkeypatch, campaign, OpenTestbed, "change")
    now = change_elsewhere(desk, campaign, 99)
    settled = finish(desk.actor, desk.actor.applications.get(planned.id))
    assert settled.state is STATES.FAILED
    assert "something else was changed there" in settled.reason
    assert desk.in_force(campaign) == now
    assert make_plan(desk.actor, campaign, desk.destination(campaign))[1] is not None


@pytest.mark.slow
def test_an_interrupted_rollback_is_finished_although_something_else_is_in_effect(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    with breaking(monkeypatch, OpenTestbed, "restore", die), pytest.raises(Broken):
        roll_back(desk.actor, applied)
    keeper = keeper_of(desk, campaign)
    keeper.reopen("fileserver", applied.id)
    keeper.restore("fileserver")
    now = change_elsewhere(desk, campaign, 99)
    back = roll_back(desk.actor, desk.actor.applications.get(applied.id))
    assert back.state is STATES.ROLLED_BACK
    assert "something else was changed there" in back.reason
    assert desk.in_force(campaign) == now


@pytest.mark.slow
def test_without_records_a_rollback_needs_the_old_settings_to_be_back(desk: Desk) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    keeper = keeper_of(desk, campaign)
    keeper.reopen("fileserver", applied.id)
    keeper.restore("fileserver")
    change_elsewhere(desk, campaign, 99)
    with pytest.raises(TestbedError, match=f"then repeat: fstune rollback {applied.id}"):
        roll_back(desk.actor, applied)
    assert desk.actor.applications.get(applied.id).state is STATES.APPLIED
    change_elsewhere(desk, campaign, 64)
    assert roll_back(desk.actor, applied).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_setting_that_was_not_set_before_must_be_gone_when_the_records_are(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading back does not tell: a fileserver is only compared with the values to be set."""
    monkeypatch.setattr(Target, "read_back", lambda *arguments: None)
    campaign = desk.campaign()
    keeper = keeper_of(desk, campaign)
    applied = desk.apply(campaign)
    keeper.reopen("fileserver", applied.id)
    keeper.restore("fileserver")
    both = {"threads": 64, "dir_buffers": 300}
    keeper.change("fileserver", {}, both)
    keeper.keep("fileserver", "somebody-else")
    with pytest.raises(TestbedError, match=r"dir_buffers is 300, and was \d+\): 'fstune appl"):
        roll_back(desk.actor, applied)
    assert desk.actor.applications.get(applied.id).state is STATES.APPLIED
    change_elsewhere(desk, campaign, 64)
    assert roll_back(desk.actor, applied).state is STATES.ROLLED_BACK
    planned = cut_off(desk, monkeypatch, campaign, OpenTestbed, "change")
    keeper.restore("fileserver")
    keeper.change("fileserver", {}, both)
    keeper.keep("fileserver", "somebody-else")
    settled = finish(desk.actor, desk.actor.applications.get(planned.id))
    assert settled.state is STATES.FAILED
    assert "something else was changed there: fileserver.dir_buffers is 300" in settled.reason


@pytest.mark.slow
def test_the_newest_application_is_the_one_that_was_applied_last(desk: Desk) -> None:
    """The earlier plan is carried out last, once the settings it started from are back."""
    first = desk.campaign(name="shared")
    second = desk.campaign(candidate=CANDIDATE | {"cache_manager.daemons": 5}, name="shared")
    early = desk.plan(first)
    below = desk.apply(second)
    # Somebody restores by hand the settings that the first plan started from.
    keeper = keeper_of(desk, second)
    for part in ("fileserver", "cache_manager"):
        own = {n.partition(".")[2]: v for n, v in ORIGINAL.items() if n.startswith(part)}
        keeper.change(part, {}, own)
        keeper.keep(part, "by-hand")
    above = carry_out(desk.actor, early)
    in_force = desk.actor.applications.in_force(testbed=above.testbed)
    assert [one.id for one in in_force] == [above.id, below.id]
    with pytest.raises(ConflictError, match=f"{above.id} was applied on this testbed after"):
        roll_back(desk.actor, below)
    assert roll_back(desk.actor, above).state is STATES.ROLLED_BACK


def test_what_another_process_has_settled_is_reported_with_the_reason_of_this_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was suspended for too long finds that another one has taken over."""
    campaign = desk.campaign()
    planned = desk.plan(campaign)

    def settle() -> None:
        application = desk.actor.applications.get(planned.id)
        failed(desk.actor, application, desk.destination(campaign), "it was interrupted")
        raise ConflictError("another process took over")

    with (
        breaking(monkeypatch, OpenTestbed, "check_health", settle),
        pytest.raises(ConflictError, match="another process took over"),
    ):
        carry_out(desk.actor, planned)
    application = desk.actor.applications.get(planned.id)
    assert (application.state, application.reason) == (STATES.FAILED, "it was interrupted")


@pytest.mark.slow
def test_a_rollback_can_be_stopped_while_it_connects(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    with (
        breaking(monkeypatch, SimulatedTestbed, "open", interrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        roll_back(desk.actor, applied)
    assert desk.actor.applications.get(applied.id).state is STATES.APPLIED
    with breaking(monkeypatch, OpenTestbed, "restore", interrupt):
        assert roll_back(desk.actor, applied).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_plan_that_only_looks_leaves_an_interrupted_application_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    planned = cut_off(desk, monkeypatch, campaign, OpenTestbed, "keep")
    applications = desk.store.running().applications
    assert applications == {(planned.testbed, planned.campaign): planned.id}
    with pytest.raises(
        ConflictError,
        match=f"{planned.id} .*was cut off .*finish it first .* rollback {planned.id}$",
    ):
        make_plan(desk.actor, campaign, desk.destination(campaign), only_look=True)
    assert desk.actor.applications.get(planned.id).state is STATES.COMMITTING
    assert desk.in_force(campaign) == CANDIDATE


@pytest.mark.slow
def test_before_the_decision_an_interrupted_application_is_only_undone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    planned = cut_off(desk, monkeypatch, campaign, OpenTestbed, "check_health")
    advice = f"was cut off on this testbed; undo it first: fstune rollback {planned.id}$"
    with pytest.raises(ConflictError, match=advice):
        make_plan(desk.actor, campaign, desk.destination(campaign), only_look=True)


@pytest.mark.slow
def test_without_its_journal_an_interrupted_application_is_not_taken_for_undone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its testbed file may name another restore directory now."""
    campaign = desk.campaign()
    planned = cut_off(desk, monkeypatch, campaign, OpenTestbed, "check_health")
    (file,) = (desk.directory / "simulated").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"open": {}}))
    refusal = f"in effect in fileserver, but no host has a record .* fstune rollback {planned.id}$"
    for settle in (roll_back, finish):
        with pytest.raises(TestbedError, match=refusal):
            settle(desk.actor, desk.actor.applications.get(planned.id))
        assert desk.actor.applications.get(planned.id).state is STATES.APPLYING
    file.unlink()  # restored by hand
    settled = roll_back(desk.actor, desk.actor.applications.get(planned.id))
    assert settled.state is STATES.FAILED
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_requested_rollback_stays_requested_while_the_application_is_completed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the rollback would take the application's new state for the outcome."""
    campaign = desk.campaign()
    planned = cut_off(desk, monkeypatch, campaign, OpenTestbed, "keep")
    event = NewEvent(datetime.now(UTC), "rollback-requested", "bob asked")
    desk.actor.applications.ask(planned.id, STATES.COMMITTING, "bob", event)
    completed = finish(desk.actor, desk.actor.applications.get(planned.id))
    assert (completed.state, completed.asked_by) == (STATES.APPLIED, "bob")
    back = roll_back(desk.actor, completed)
    assert (back.state, back.asked_by) == (STATES.ROLLED_BACK, None)


@pytest.mark.slow
def test_what_was_applied_from_another_database_is_rolled_back_from_there_first(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be lost, and its own rollback would bring back what it replaced."""
    campaign = desk.campaign(name="shared")
    early = desk.apply(campaign)
    settings = desk.in_force(campaign)
    name = new_application_id(datetime.now(UTC) + timedelta(hours=1))
    monkeypatch.setattr("tuner.apply.applying.new_application_id", lambda now: name)
    with Store.open(tmp_path / "other") as store:
        other = Desk(store, tmp_path)
        world = {"simulated": {"name": "shared", "found": dict(ORIGINAL)}}
        candidate = CANDIDATE | {"cache_manager.daemons": 5}
        late = other.apply(recommending(store, spec(testbed=world), CANDIDATE, candidate))
        with pytest.raises(
            ConflictError, match=f"{late.id} was applied on the .* after {early.id}"
        ):
            roll_back(desk.actor, early)
        assert desk.actor.applications.get(early.id).state is STATES.APPLIED
        assert desk.in_force(campaign) == settings | {"cache_manager.daemons": 5}
        roll_back(other.actor, late)
    assert desk.in_force(campaign) == settings
    assert roll_back(desk.actor, early).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_campaigns_on_one_testbed_without_a_name_are_rolled_back_in_order(desk: Desk) -> None:
    """Their applications have different names for the testbed, which has one file of settings."""
    first = desk.campaign()
    second = desk.campaign(candidate=CANDIDATE | {THREADS: 128})
    below, above = desk.apply(first), desk.apply(second)
    assert below.testbed != above.testbed
    with pytest.raises(
        ConflictError, match=f"^{above.id} was applied on this testbed after {below.id}; roll that"
    ):
        roll_back(desk.actor, below)
    assert desk.actor.applications.get(below.id).state is STATES.APPLIED
    for one in (above, below):
        assert roll_back(desk.actor, one).state is STATES.ROLLED_BACK
    assert desk.in_force(first) == ORIGINAL


@pytest.mark.slow
def test_an_application_on_another_testbed_is_no_obstacle(desk: Desk) -> None:
    early = desk.apply(desk.campaign(name="one"))
    desk.apply(desk.campaign(name="two"))
    assert roll_back(desk.actor, early).state is STATES.ROLLED_BACK
