"""What somebody else changes on a testbed of an application locks nothing."""

from __future__ import annotations

import pytest

from tests.unit.apply.conftest import CHOSEN, FOUND, Desk
from tests.unit.apply.failing import Broken, breaking
from tests.unit.apply.test_applying import died, stopped
from tuner.apply.applying import carry_out, finish, make_plan, roll_back
from tuner.apply.open_testbed import OpenTestbed
from tuner.campaign.spec import CampaignSpec
from tuner.errors import ConflictError, StalePlanError, TestbedError
from tuner.model import Campaign, Value
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated.document import SimulatedSection
from tuner.services.simulated.keeper import Keeper
from tuner.states import ApplicationState

STATES = ApplicationState


def keeper(desk: Desk, campaign: Campaign) -> Keeper:
    places = CampaignSpec.from_json(campaign.spec).places
    section = places[0].section
    assert isinstance(section, SimulatedSection)
    return Keeper.of(section, desk.directory)


def changed(desk: Desk, campaign: Campaign, threads: int) -> dict[str, Value]:
    """Have somebody else change the fileserver; what is in effect then."""
    kept = keeper(desk, campaign)
    kept.change("fileserver", {}, {"threads": threads})
    kept.keep("fileserver", "somebody-else")
    return kept.initial(FOUND)


@pytest.mark.slow
def test_a_stale_plan_changes_nothing_and_locks_nothing(desk: Desk) -> None:
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    now = changed(desk, campaign, 99)
    with pytest.raises(StalePlanError, match=r"fileserver.threads changed\): make a new plan"):
        carry_out(desk.hand, planned)
    assert desk.hand.applications.get(planned.id).state is STATES.FAILED
    assert desk.in_force(campaign) == now
    assert not [said for said in desk.said if said.startswith(("setting", "restoring"))]
    applied = desk.apply(campaign)
    assert desk.in_force(campaign) == CHOSEN
    assert roll_back(desk.hand, applied).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == now


@pytest.mark.slow
def test_one_that_was_cut_off_is_settled_although_something_else_is_in_effect(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    with (
        breaking(monkeypatch, OpenTestbed, "change", died),
        breaking(monkeypatch, OpenTestbed, "put_back", died),
        pytest.raises(Broken),
    ):
        carry_out(desk.hand, planned)
    now = changed(desk, campaign, 99)
    settled = finish(desk.hand, desk.hand.applications.get(planned.id))
    assert settled.state is STATES.FAILED
    assert "something else was changed there" in settled.reason
    assert desk.in_force(campaign) == now
    assert make_plan(desk.hand, campaign, desk.site(campaign))[1] is not None


@pytest.mark.slow
def test_a_rollback_that_was_cut_off_ends_although_something_else_is_in_effect(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    with breaking(monkeypatch, OpenTestbed, "put_back", died), pytest.raises(Broken):
        roll_back(desk.hand, applied)
    kept = keeper(desk, campaign)
    kept.reopen("fileserver", applied.id)
    kept.put_back("fileserver")
    now = changed(desk, campaign, 99)
    back = roll_back(desk.hand, desk.hand.applications.get(applied.id))
    assert back.state is STATES.ROLLED_BACK
    assert "something else was changed there" in back.reason
    assert desk.in_force(campaign) == now


@pytest.mark.slow
def test_what_is_back_already_is_rolled_back_although_no_host_has_a_record(desk: Desk) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    kept = keeper(desk, campaign)
    kept.reopen("fileserver", applied.id)
    kept.put_back("fileserver")
    changed(desk, campaign, 99)
    with pytest.raises(TestbedError, match=f"then repeat: fstune rollback {applied.id}"):
        roll_back(desk.hand, applied)
    assert desk.hand.applications.get(applied.id).state is STATES.APPLIED
    changed(desk, campaign, 64)
    assert roll_back(desk.hand, applied).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == FOUND


@pytest.mark.slow
def test_the_newest_is_the_one_that_was_applied_last(desk: Desk) -> None:
    """A plan that was made first is carried out last, once what it began with is back."""
    first = desk.campaign(name="shared")
    second = desk.campaign(chosen=CHOSEN | {"cache_manager.daemons": 5}, name="shared")
    early = desk.plan(first)
    below = desk.apply(second)
    # Somebody puts the settings back by hand that the first plan began with.
    kept = keeper(desk, second)
    for part in ("fileserver", "cache_manager"):
        own = {n.partition(".")[2]: v for n, v in FOUND.items() if n.startswith(part)}
        kept.change(part, {}, own)
        kept.keep(part, "by-hand")
    above = carry_out(desk.hand, early)
    in_force = desk.hand.applications.in_force(testbed=above.testbed)
    assert [one.id for one in in_force] == [above.id, below.id]
    with pytest.raises(ConflictError, match=f"{above.id} was applied on this testbed after"):
        roll_back(desk.hand, below)
    assert roll_back(desk.hand, above).state is STATES.ROLLED_BACK


@pytest.mark.slow
def test_a_rollback_can_be_stopped_while_it_connects(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    with (
        breaking(monkeypatch, SimulatedTestbed, "open", stopped),
        pytest.raises(KeyboardInterrupt),
    ):
        roll_back(desk.hand, applied)
    assert desk.hand.applications.get(applied.id).state is STATES.APPLIED
    with breaking(monkeypatch, OpenTestbed, "put_back", stopped):
        assert roll_back(desk.hand, applied).state is STATES.ROLLED_BACK
    assert desk.in_force(campaign) == FOUND
