"""Requests over HTTP that did not start can be repeated."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.starting import Starter
from tests.unit.api.conftest import Guarded
from tests.unit.api.test_applying import newest, post, recommending_campaign
from tuner.apply.applying import Actor, make_plan
from tuner.apply.testbed import Destination
from tuner.states import ApplicationState
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications


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
        event = NewEvent(datetime.now(UTC), "apply-requested", "bob asked")
        applications = Applications(store)
        applications.ask(planned.id, ApplicationState.PLANNED, "bob", event)
        assert applications.get(planned.id).asked_by == "bob"
        with TestClient(create_app(tmp_path)):
            assert applications.get(planned.id).asked_by is None
