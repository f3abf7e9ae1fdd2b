"""A rollback replaces nothing that somebody else has changed after the application, unless told."""

from __future__ import annotations

import pytest

import search_spaces
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.apply.test_outside import change_elsewhere
from tests.unit.campaign.campaigns import THREADS
from tuner.apply.applying import roll_back
from tuner.apply.plan import replaced
from tuner.apply.rollback_checks import changed_since, check_replaced
from tuner.errors import ConflictError
from tuner.model import Configuration, Value
from tuner.states import ApplicationState

STATES = ApplicationState
CHANGED = f"{THREADS} is 99, where 200 was applied"


def configuration(**values: Value) -> Configuration:
    return Configuration.of({f"fileserver.{name}": value for name, value in values.items()})


@pytest.mark.slow
def test_what_somebody_changed_after_an_application_is_not_replaced(desk: Desk) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    assert changed_since(desk.actor, applied) == ()
    now = change_elsewhere(desk, campaign, 99)
    sentences = changed_since(desk.actor, applied)
    assert CHANGED in sentences
    with pytest.raises(ConflictError) as looking:
        check_replaced(applied, sentences)
    with pytest.raises(ConflictError) as refusing:
        roll_back(desk.actor, applied)
    assert str(looking.value) == str(refusing.value)
    assert f"to do that: fstune rollback {applied.id} --replace; changed: " in str(refusing.value)
    assert CHANGED in str(refusing.value)
    assert desk.in_force(campaign) == now
    assert desk.actor.applications.get(applied.id).state is STATES.APPLIED


@pytest.mark.slow
def test_it_is_replaced_if_told_and_that_is_recorded(desk: Desk) -> None:
    campaign = desk.campaign()
    applied = desk.apply(campaign)
    change_elsewhere(desk, campaign, 99)
    back = roll_back(desk.actor, applied, replace=True)
    assert (back.state, back.reason) == (STATES.ROLLED_BACK, "")
    assert desk.in_force(campaign) == ORIGINAL
    assert f"changed since, and replaced: {CHANGED}" in desk.messages
    (event,) = [one for one in desk.store.events(campaign.id) if one.kind == "rolling-back"]
    assert CHANGED in event.message


@pytest.mark.slow
def test_looking_settles_no_interrupted_application(desk: Desk) -> None:
    campaign = desk.campaign()
    planned = desk.plan(campaign)
    desk.actor.move(planned, STATES.APPLYING, "applying", "a test interrupts it", "")
    assert changed_since(desk.actor, planned) == ()
    assert desk.actor.applications.get(planned.id).state is STATES.APPLYING
    assert desk.in_force(campaign) == ORIGINAL != CANDIDATE


def test_settings_as_applied_or_as_before_are_no_changes() -> None:
    space = search_spaces.load("openafs-fileserver-1.8")
    before, after = configuration(), configuration(threads=20, callbacks=90000)
    for now in (before, after, configuration(threads=20)):
        assert replaced("fileserver", space, {}, now, after, before) == ()
    now = configuration(threads=30, callbacks=90000)
    sentence = "fileserver.threads is 30, where 20 was applied"
    assert replaced("fileserver", space, {}, now, after, before) == (sentence,)
    # As a host that was restarted has it.
    assert replaced("fileserver", space, {}, before, after, now) == (
        "fileserver.callbacks is 60000, where 90000 was applied",
        "fileserver.threads is 9, where 20 was applied",
    )
    assert replaced("fileserver", space, {}, before, after, now, configuration()) == ()
