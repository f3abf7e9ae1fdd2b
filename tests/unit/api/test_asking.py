"""What was asked for over HTTP and did not begin can be asked for again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.starting import Starter
from tests.unit.api.conftest import Guarded
from tests.unit.api.test_applying import newest, post, stored
from tuner.apply.applying import Hand, make_plan
from tuner.apply.place import Site
from tuner.states import ApplicationState
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications


@pytest.mark.slow
def test_what_cannot_be_started_is_asked_by_nobody(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = stored(guarded)
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
def test_a_service_that_starts_forgets_what_was_asked_of_an_earlier_one(tmp_path: Path) -> None:
    from tests.recommending import recommending
    from tests.unit.apply.conftest import CANDIDATE, ORIGINAL
    from tests.unit.campaign.campaigns import spec

    with Store.open(tmp_path) as store:
        hand = Hand(store, tmp_path, "alice", lambda said: None)
        campaign = recommending(store, spec(found=ORIGINAL), ORIGINAL, CANDIDATE)
        planned = make_plan(hand, campaign, Site.of(campaign, tmp_path))[1]
        assert planned is not None
        event = NewEvent(datetime.now(UTC), "apply-requested", "bob asked")
        kept = Applications(store)
        kept.ask(planned.id, ApplicationState.PLANNED, "bob", event)
        assert kept.get(planned.id).asked_by == "bob"
        with TestClient(create_app(tmp_path)):
            assert kept.get(planned.id).asked_by is None
