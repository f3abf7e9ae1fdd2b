"""Processes about to release a testbed are waited for; those still using it are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.apply.conftest import Desk
from tests.unit.apply.test_verifying import measure
from tests.unit.campaign.campaigns import faster
from tuner.apply import waiting
from tuner.apply.applying import carry_out
from tuner.errors import ConflictError
from tuner.holders import is_gone
from tuner.model import Campaign
from tuner.run.event_writer import EventWriter
from tuner.run.holding import hold_testbeds
from tuner.states import ApplicationState, CampaignState, EventKind
from tuner.store import NewEvent

LIMIT_S = 3600.0


class Pauses:
    """Counts the pauses, and calls ``then`` in the third."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.then: Callable[[], None] = lambda: None
        monkeypatch.setattr(waiting, "pause", self)

    def __call__(self, seconds: float) -> None:
        self.count += 1
        if self.count == 3:
            self.then()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    return Pauses(monkeypatch)


def test_a_verification_holds_its_testbed_until_its_end_is_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign(faster(-0.10))
    moves, move = [], EventWriter.move

    def moving(writer: EventWriter, state: CampaignState, *of: Any) -> Any:
        moves.append((state, len(desk.store.leases())))
        return move(writer, state, *of)

    monkeypatch.setattr(EventWriter, "move", moving)
    measure(desk, campaign, 3)
    assert moves == [(CampaignState.RUNNING, 1), (CampaignState.FINISHED, 1)]
    assert desk.store.leases() == []


def test_a_finished_campaign_that_still_has_its_lease_is_waited_for(
    desk: Desk, pauses: Pauses
) -> None:
    campaign = desk.campaign()
    with hold_testbeds(
        desk.store, campaign.id, [desk.destination(campaign).name], LIMIT_S
    ) as holding:
        pauses.then = holding.close
        application = desk.plan(campaign)
    assert application.state is ApplicationState.PLANNED
    assert pauses.count == 3


@pytest.mark.slow
def test_when_the_lease_is_never_released_the_plan_is_refused(desk: Desk, pauses: Pauses) -> None:
    campaign = desk.campaign()
    with (
        hold_testbeds(desk.store, campaign.id, [desk.destination(campaign).name], LIMIT_S),
        pytest.raises(ConflictError),
    ):
        desk.plan(campaign)
    assert pauses.count > 3


def running(desk: Desk, campaign: Campaign, name: str) -> str:
    """Create another running campaign on the testbed of the given one."""
    created = desk.store.create_campaign(name, campaign.spec, 1, campaign.created)
    event = NewEvent(campaign.created, "campaign-started", "it runs")
    desk.store.move_campaign(created.id, CampaignState.RUNNING, "", event)
    return created.id


def test_a_campaign_that_runs_is_not_waited_for(desk: Desk, pauses: Pauses) -> None:
    campaign = desk.campaign()
    other = running(desk, campaign, "other")
    with (
        hold_testbeds(desk.store, other, [desk.destination(campaign).name], LIMIT_S),
        pytest.raises(ConflictError, match=f"campaign {other}: .*; when it is free, repeat this$"),
    ):
        desk.plan(campaign)
    assert pauses.count == 0


def test_an_application_under_way_is_not_waited_for(desk: Desk, pauses: Pauses) -> None:
    campaign = desk.campaign()
    application = desk.plan(campaign)
    applying = ApplicationState.APPLYING
    with hold_testbeds(desk.store, campaign.id, [application.testbed], LIMIT_S):
        desk.actor.move(application, applying, EventKind.BLOCK_COMPLETE, "it applies", "")
        held_by = f"in use by application {application.id} of campaign {campaign.id}: "
        with pytest.raises(ConflictError, match=f"{held_by}.*; when it is free, repeat this$"):
            carry_out(desk.actor, application)
    assert pauses.count == 0


def test_a_dead_process_is_not_waited_for(
    desk: Desk, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = desk.campaign()
    with hold_testbeds(desk.store, campaign.id, [desk.destination(campaign).name], LIMIT_S):
        monkeypatch.setattr(waiting, "is_gone", lambda holder: not is_gone(holder))
        with pytest.raises(ConflictError):
            desk.plan(campaign)
    assert pauses.count == 0
