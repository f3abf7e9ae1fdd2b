"""A service that leaves its campaigns to workers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from api import app
from api.app import create_app
from tests.postgresql import Server
from tests.unit.work.test_workers import campaign_on
from tuner.errors import SpecError
from tuner.settings import ServiceSettings
from tuner.store import Store, database
from tuner.store.access import Access
from tuner.store.queue import Queue
from tuner.tokens import Scope

SETTINGS = ServiceSettings(queue=True, auth=True, allow=frozenset({"simulated"}))


@pytest.mark.postgres
def test_campaigns_started_over_http_wait_for_a_worker(
    state: Path, address: str, store: Store, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSTUNE_STATE_DIR", str(state))
    monkeypatch.setenv("FSTUNE_DATABASE_URL", address)
    _, token = Access(store).create("one", Scope.OPERATE, datetime.now(UTC), None)
    headers = {"Authorization": f"Bearer {token}"}
    document = campaign_on("one").model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    with TestClient(create_app(settings=SETTINGS), base_url="http://service") as client:
        answer = client.post("/v1/campaigns", json=document, headers=headers)
        assert answer.status_code == 202, answer.text
        campaign = answer.json()["id"]
        (run,) = queue.runs()
        assert (run.campaign, run.queue, run.taken) == (campaign, "simulated", False)
        again = client.post(f"/v1/campaigns/{campaign}/resume", headers=headers)
        assert again.status_code == 409
        assert "is already queued" in again.json()["detail"]
        kinds = [event.kind for event in store.events(campaign)]
        assert kinds == ["campaign-created", "campaign-queued"]
        assert client.post(f"/v1/campaigns/{campaign}/cancel", headers=headers).status_code == 202
    assert queue.runs() == []
    assert not (state / "logs").exists()


@pytest.mark.postgres
def test_a_service_answers_while_its_database_is_away(
    state: Path, address: str, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waiting request takes one of few threads."""
    monkeypatch.setenv("FSTUNE_STATE_DIR", str(state))
    monkeypatch.setenv("FSTUNE_DATABASE_URL", address)
    monkeypatch.setattr(app, "_PATIENCE_S", 0.3)
    monkeypatch.setattr(database, "PATIENCE_S", 40.0)
    with TestClient(app.create_app(settings=ServiceSettings()), base_url="http://localhost") as one:
        assert one.get("/readyz").status_code == 200
        postgresql.stop()
        try:
            since_s = time.monotonic()
            for _ in range(3):
                assert one.get("/v1/campaigns").json()["type"] == "urn:fstune:store"
            assert time.monotonic() - since_s < 20.0
        finally:
            postgresql.start()
        assert one.get("/v1/campaigns").status_code == 200


def test_a_service_on_a_file_has_no_queue(state: Path) -> None:
    with (
        pytest.raises(SpecError, match="PostgreSQL"),
        TestClient(create_app(state, SETTINGS), base_url="http://service"),
    ):
        pass
