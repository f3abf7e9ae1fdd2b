"""Requests over HTTP that did not start can be repeated."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api import lost_requests
from api.app import create_app
from api.lost_requests import STARTING
from api.starting import Starter
from tests.unit.api.conftest import Guarded
from tests.unit.api.test_applying import newest, post, recommending_campaign
from tests.waiting import wait_for
from tuner.apply.actor import Actor
from tuner.apply.applying import make_plan
from tuner.apply.destination import Destination
from tuner.holders import this_process
from tuner.states import ApplicationState, EventKind
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications
from tuner.store.verifications import Verifications


@pytest.mark.slow
def test_a_request_that_cannot_be_started_is_withdrawn(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = recommending_campaign(guarded)
    plan = post(guarded, f"{campaign}/plans", json={}).json()

    def refused(*arguments: object) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(Starter, "start_application", refused)
    with pytest.raises(OSError, match="no process"):
        post(guarded, f"{campaign}/plans/{plan['identity']}/apply")
    application = newest(guarded, campaign)["id"]
    with Store.open(guarded.directory) as store:
        assert Applications(store).get(application).asked_by is None


@pytest.mark.slow
def test_a_starting_service_forgets_the_requests_to_an_earlier_one(tmp_path: Path) -> None:
    from tests.recommending import recommending
    from tests.unit.apply.conftest import CANDIDATE, ORIGINAL
    from tests.unit.campaign.campaigns import spec

    with Store.open(tmp_path) as store:
        actor = Actor(store, tmp_path, "alice", lambda text: None)
        campaign = recommending(store, spec(found=ORIGINAL), ORIGINAL, CANDIDATE)
        planned = make_plan(actor, campaign, Destination.of(campaign, tmp_path))[1]
        assert planned is not None
        applications = Applications(store)

        def ask(at: datetime) -> None:
            event = NewEvent(at, "apply-requested", "bob asked", {"application": planned.id})
            applications.ask(planned.id, ApplicationState.PLANNED, "bob", event)

        ask(datetime.now(UTC))
        with TestClient(create_app(tmp_path)):  # the process of the request may be starting
            assert applications.get(planned.id).asked_by == "bob"
        applications.unask(planned.id)
        ask(datetime.now(UTC) - 2 * STARTING)
        # The process was killed, and its lease is still there.
        cut_off = NewEvent(datetime.now(UTC), "block-void", "cut off")
        dead_process = replace(this_process(), start_ticks=1)
        testbed = [planned.testbed]
        store.take_testbeds(campaign.id, testbed, dead_process, 3600.0, lambda _: False, cut_off)
        with TestClient(create_app(tmp_path)):
            assert applications.get(planned.id).asked_by is None


@pytest.mark.slow
def test_a_request_whose_process_did_not_start_is_forgotten_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_requests, "STARTING", timedelta(seconds=0.2))
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("one", "{}", 1, datetime.now(UTC)).id
        event = NewEvent(datetime.now(UTC), EventKind.VERIFY_REQUESTED, "somebody asked")
        verifications = Verifications(store)
        verifications.ask(campaign, event)
        with TestClient(create_app(tmp_path)):
            wait_for(lambda: len(verifications.of(campaign)) == 2, "the outcome")
        assert "it was cut off" in verifications.of(campaign)[-1].message
