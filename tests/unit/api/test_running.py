"""Status of running campaigns, and exports."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from api import exports, steering
from api.service import Service
from api.starting import Starter
from tests.unit.api.conftest import Guarded, fstune
from tests.unit.api.test_conventions import is_problem
from tests.unit.store.test_leases import LIMIT_S, THERE
from tests.waiting import wait_for
from tuner.holders import this_process
from tuner.model import Holder
from tuner.states import CampaignState
from tuner.store import NewEvent, Store
from tuner.tokens import Scope

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)
EVENT = NewEvent(NOW, "campaign-started", "campaign started")


def running(store: Store, testbed: str, holder: Holder) -> str:
    """Create a campaign in state running, with its testbed held by ``holder``."""
    campaign = store.create_campaign(f"on {testbed}", "{}", 1, NOW).id
    store.take_testbeds(campaign, [testbed], holder, LIMIT_S, lambda _: False, EVENT)
    store.move_campaign(campaign, CampaignState.RUNNING, "", EVENT)
    return campaign


def test_the_status_reports_processes_and_testbeds(guarded: Guarded) -> None:
    here = this_process()
    dead_process = replace(here, start_ticks=here.start_ticks + 1)
    with Store.open(guarded.directory) as store:
        alive = running(store, "hall 7", here)
        dead = running(store, "hall 8", dead_process)
        far = running(store, "hall 9", THERE)
        lost = store.create_campaign("lost", "{}", 1, NOW).id
        store.move_campaign(lost, CampaignState.RUNNING, "", EVENT)
        store.create_campaign("waiting", "{}", 1, NOW)
    reader = guarded.headers(Scope.READ)
    status = guarded.client.get("/v1/status", headers=reader).json()
    runs = {run["campaign"]: (run["presence"], run["testbed"]) for run in status["running"]}
    assert runs == {
        alive: ("alive", "hall 7"),
        dead: ("died", "hall 8"),
        far: ("alive", "hall 9"),
        lost: ("died", ""),
    }
    assert (status["waiting"], status["workers"]) == ([], [])
    # The pages show the same, with a resume button for visitors who may use it.
    operator, page = guarded.headers(Scope.OPERATE), {"Accept": "text/html"}
    for campaign in (alive, dead, lost):  # pages wait only briefly for a campaign to be read
        guarded.client.get(f"/v1/campaigns/{campaign}/drift", headers=reader)
    text = guarded.client.get(f"/campaigns/{dead}", headers=operator | page).text
    assert f"its process ({here.pid} on {here.host}) has died" in text
    assert '<span class="state stalled">stalled</span>' in text
    assert '<button id="resume">' in text
    assert '<button id="pause">' not in text
    text = guarded.client.get(f"/campaigns/{lost}/live", headers=reader | page).text
    assert "no process runs it any more" in text
    assert f"<code>fstune resume {lost}</code>" in text
    text = guarded.client.get(f"/campaigns/{alive}", headers=operator | page).text
    assert 'id="absence"' not in text
    assert '<button id="pause">' in text
    text = guarded.client.get("/campaigns", headers=reader | page).text
    assert text.count("has died") == 1
    # In the words of `fstune list`.
    states = re.findall(r'<span class="state (\w+)">\1</span>', text)
    assert sorted(states) == ["created", "running", "running", "stalled", "stalled"]


def test_a_resumed_campaign_records_that_its_run_did_not_start(guarded: Guarded) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("lost", "{}", 1, NOW).id
        store.move_campaign(campaign, CampaignState.RUNNING, "", EVENT)
        operator = guarded.headers(Scope.OPERATE)
        path = f"/v1/campaigns/{campaign}"
        assert guarded.client.post(f"{path}/resume", headers=operator).status_code == 202
        wait_for(lambda: store.events(campaign)[-1].kind == "start-failed", "the end of the run")
        assert store.campaign(campaign).state is CampaignState.RUNNING


def test_a_campaign_whose_run_is_starting_is_not_resumed_again(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post(path: str) -> Any:
        return guarded.client.post(path, headers=guarded.headers(Scope.OPERATE))

    started: list[str] = []
    monkeypatch.setattr(Starter, "start", lambda _, campaign, **options: started.append(campaign))
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("one", "{}", 1, datetime.now(UTC)).id
        path = f"/v1/campaigns/{campaign}/resume"
        assert post(path).status_code == 202
        refused = post(path)
        assert is_problem(refused, 409)
        assert refused.json()["detail"] == f"campaign {campaign} is already being resumed"
        kinds = [event.kind for event in store.events(campaign)]
        assert (kinds, started) == (["campaign-created", "resume-requested"], [campaign])
        # The service may have died before it started the run, or the run ended.
        monkeypatch.setattr(steering, "STARTING", timedelta(0))
        assert post(path).status_code == 202
        store.add_event(campaign, NewEvent(datetime.now(UTC), "start-failed", ""))
        monkeypatch.undo()
        monkeypatch.setattr(Starter, "start", lambda _, campaign, **options: None)
        assert post(path).status_code == 202


def test_a_campaign_is_exported_as_a_file(
    client: TestClient, measured: Path, tmp_path: Path
) -> None:
    before = set(measured.iterdir())
    answer = client.get("/v1/campaigns/last/export")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/gzip"
    with Store.open(measured) as store:
        campaign = store.campaign("last").id
    disposition = answer.headers["content-disposition"]
    assert disposition == f'attachment; filename="{campaign}.jsonl.gz"'
    assert int(answer.headers["content-length"]) == len(answer.content)
    fstune(measured, "export", "last", str(tmp_path / "here"))
    assert gzip.decompress(answer.content) == gzip.decompress((tmp_path / "here").read_bytes())
    (tmp_path / "there").write_bytes(answer.content)
    assert campaign in fstune(tmp_path / "other", "import", str(tmp_path / "there"))
    assert set(measured.iterdir()) == before
    assert is_problem(client.get("/v1/campaigns/nosuch/export"), 404)


def test_concurrent_exports_are_limited(
    client: TestClient, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service: Service = cast(FastAPI, client.app).state.service
    with Store.open(measured) as store:
        campaign = store.campaign("last").id
    waiting = [service.exports.response(campaign) for _ in range(exports._AT_ONCE)]
    refused = client.get("/v1/campaigns/last/export")
    assert is_problem(refused, 503)
    assert refused.headers["retry-after"] == "10"
    for one in waiting:
        one.close()
    # An export that was sent, or failed, frees its slot.

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(exports, "write_campaign", full)
        for _ in range(2 * exports._AT_ONCE):
            refused = client.get("/v1/campaigns/last/export")
            assert is_problem(refused, 503)
            assert "No space left on device" in refused.json()["detail"]
    for _ in range(2 * exports._AT_ONCE):
        assert client.get("/v1/campaigns/last/export").status_code == 200
