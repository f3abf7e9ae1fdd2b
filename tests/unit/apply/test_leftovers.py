"""Files that checks have left are removed while a client has its token; the rest is reported."""

from __future__ import annotations

import pytest

from tests.unit.apply.conftest import ORIGINAL, Desk
from tests.unit.apply.failing import Broken, breaking
from tests.unit.apply.test_applying import die
from tests.unit.campaign.test_leftovers import SENTENCE, Volume
from tuner.applications import Application
from tuner.apply.actor import finish
from tuner.apply.applying import carry_out, roll_back
from tuner.apply.open_testbed import OpenTestbed
from tuner.errors import TestbedError, WorkloadError
from tuner.services.simulated.testbed import _SimulatedPart
from tuner.states import ApplicationState

STATES = ApplicationState

pytestmark = pytest.mark.slow


def planned_on(volume: Volume, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Application:
    """Plan an application of a new campaign; its checks work on the volume."""
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    volume.install(monkeypatch)
    return planned


def reports(desk: Desk, of: Application) -> list[tuple[str, object]]:
    events = desk.store.events(of.campaign, kinds=["apply-leftovers"])
    return [(event.message, event.data["application"]) for event in events]


def test_files_are_removed_before_the_token_for_that_is_destroyed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(1,), needs_token=True)
    planned = planned_on(volume, desk, monkeypatch)
    with pytest.raises(WorkloadError, match="short-read"):
        carry_out(desk.actor, planned)
    assert volume.files == set()
    assert volume.log == ["run", "clean quickly", "restore", "restore"]
    assert reports(desk, planned) == []
    assert desk.in_force(desk.store.campaign(planned.campaign)) == ORIGINAL


def test_what_cannot_be_removed_is_tried_again_and_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(1,), stuck=True)
    planned = planned_on(volume, desk, monkeypatch)
    with pytest.raises(WorkloadError):
        carry_out(desk.actor, planned)
    assert volume.log == ["run", "clean quickly", "restore", "restore", "clean"]
    assert reports(desk, planned) == [(SENTENCE, planned.id)]
    assert desk.messages.count(SENTENCE) == 1


def test_what_is_left_is_stored_even_if_nothing_can_be_restored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(1,), stuck=True)
    planned = planned_on(volume, desk, monkeypatch)

    def stuck(part: _SimulatedPart) -> str:
        raise TestbedError("the host is down")

    monkeypatch.setattr(_SimulatedPart, "restore", stuck)
    with pytest.raises(TestbedError, match="the host is down"):
        carry_out(desk.actor, planned)
    # The second try to restore the hosts is not delayed.
    assert volume.log == ["run", "clean quickly"]
    assert reports(desk, planned) == [(SENTENCE, planned.id)]


def test_the_next_process_removes_what_a_killed_one_has_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(1,), problem=Broken(), needs_token=True)
    planned = planned_on(volume, desk, monkeypatch)
    with (
        breaking(monkeypatch, OpenTestbed, "restore", die),
        breaking(monkeypatch, OpenTestbed, "clean", die),
        pytest.raises(Broken),
    ):
        carry_out(desk.actor, planned)
    assert volume.files
    settled = finish(desk.actor, desk.actor.applications.get(planned.id))
    assert settled.state is STATES.FAILED
    assert volume.log == ["run", "clean quickly", "restore", "restore"]
    assert volume.files == set()


def test_a_rollback_is_not_delayed_where_nothing_can_be_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(2,), stuck=True)
    campaign = desk.campaign()
    volume.install(monkeypatch)
    applied = desk.apply(campaign)
    volume.log.clear()
    # The check after it fails.
    with pytest.raises(WorkloadError):
        roll_back(desk.actor, applied)
    assert volume.log[0] == "restore"
    assert [each for each in volume.log if each != "restore"] == ["run", "clean"]
    assert reports(desk, applied) == [(SENTENCE, applied.id)]
    assert desk.actor.applications.get(applied.id).state is STATES.ROLLED_BACK
