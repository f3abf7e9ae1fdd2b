"""Routes that report on campaigns."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from tests.recommending import recommending
from tests.unit.api.conftest import Guarded, fstune
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL
from tests.unit.campaign.campaigns import spec
from tuner.model import Aspect
from tuner.remote.records import read_noise
from tuner.report.noise import noise_document
from tuner.store import NewEvent, Store
from tuner.tokens import Scope

pytestmark = pytest.mark.slow

LISTS = ("trials", "blocks", "measurements", "events")


def test_a_campaign_is_found_by_its_name(guarded: Guarded) -> None:
    with Store.open(guarded.directory) as store:
        campaigns = {
            name: store.create_campaign(name, "{}", 1, datetime.now(UTC)).id
            for name in ("my campaign", "Prüfung", "v1.2_b")
        }
    for name, campaign in campaigns.items():
        answer = guarded.client.get(f"/v1/campaigns/{name}", headers=guarded.headers(Scope.READ))
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == campaign


def test_campaigns_are_listed_with_their_answer(client: TestClient) -> None:
    (campaign,) = client.get("/v1/campaigns").json()["items"]
    assert campaign["name"] == "over http"
    assert campaign["state"] == "finished"
    assert campaign["answer"] == "recommended"
    assert campaign["testbed"] == "simulated"
    assert client.get(f"/v1/campaigns/{campaign['id']}").json() == campaign


def test_the_recommendation_has_settings_options_and_evidence(client: TestClient) -> None:
    document = client.get("/v1/campaigns/last/recommendation").json()
    assert document["answer"] == "recommended"
    daemons = document["configuration"]["cache_manager.daemons"]
    assert document["flags"]["cache_manager"]["arguments"] == ["-daemons", str(daemons)]
    assert document["improvement"]["lower_percent"] > 0
    assert document["client"] == "simulated"
    explanation = client.get("/v1/campaigns/last/why").json()
    assert (explanation["trial"], explanation["sentences"]) == (document["trial"], document["why"])
    assert isinstance(document["why"], list)


def test_the_noise_is_that_of_fstune_show(client: TestClient, measured: Path) -> None:
    document = client.get("/v1/campaigns/last/noise").json()
    assert document == json.loads(fstune(measured, "show", "--json"))["noise"]
    report, components = read_noise(document)
    assert noise_document(report, components) == document


def test_a_campaign_that_has_measured_nothing_has_no_noise(guarded: Guarded) -> None:
    with Store.open(guarded.directory) as store:
        store.create_campaign("new", spec().to_json(), 1, datetime.now(UTC))
    answer = guarded.client.get("/v1/campaigns/last/noise", headers=guarded.headers(Scope.READ))
    assert answer.status_code == 404
    assert "has too few repeated measurements" in answer.json()["detail"]


def test_the_page_of_a_campaign_says_that_a_verification_found_less(guarded: Guarded) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    with Store.open(guarded.directory) as store:
        one = recommending(store, spec(found=ORIGINAL), ORIGINAL, CANDIDATE).id
        other = store.create_campaign("verify it", "{}", 1, at).id
        for campaign in (one, other):
            store.set_measured_with(campaign, {"testbed": Aspect("0" * 64, {})})
            store.add_event(campaign, NewEvent(at, "testbed-ready", "", {"identity": "dafs 1"}))
        data: dict[str, str | int | float | bool | None] = {
            "campaign": other,
            "elsewhere": False,
            "outcome": "no longer holds",
            "ratio": 1.05,
            "lower": 1.01,
            "upper": 1.09,
            "confidence": 0.95,
        }
        store.add_event(one, NewEvent(at, "verified", "no longer holds", data))
    headers = guarded.headers(Scope.READ) | {"Accept": "text/html"}
    # Pages wait only briefly for a campaign to be read.
    guarded.client.get(f"/v1/campaigns/{one}/drift", headers=headers)
    page = guarded.client.get(f"/campaigns/{one}", headers=headers).text
    overview = page.partition("</section>")[0]
    assert "5.0% slower (95% interval 1.0 to 9.0%), less than what was certified" in overview


def test_an_expired_certificate_is_marked_wherever_it_is_shown(guarded: Guarded) -> None:
    with Store.open(guarded.directory) as store:
        one = recommending(store, spec(found=ORIGINAL), ORIGINAL, CANDIDATE)
        at = datetime.now(UTC) + timedelta(hours=1)
        other = store.create_campaign("later", one.spec, 1, at).id
        for campaign, programs in ((one.id, "dafs 1"), (other, "dafs 2")):
            store.set_measured_with(campaign, {"testbed": Aspect("0" * 64, {})})
            ready = NewEvent(at, "testbed-ready", "ready", {"identity": programs})
            store.add_event(campaign, ready)
    message = f"expired: campaign {other} found this testbed with other programs dafs 2, not dafs 1"
    headers = guarded.headers(Scope.ADMIN)

    def get(path: str) -> Any:
        return guarded.client.get(path, headers=headers).json()

    assert get(f"/v1/campaigns/{one.id}")["expired"].startswith(message)
    listed = {item["id"]: item["expired"] for item in get("/v1/campaigns")["items"]}
    assert listed[one.id].startswith(message)
    assert listed[other] == ""
    assert get(f"/v1/campaigns/{one.id}/recommendation")["notes"][0].startswith(message)
    assert get("/v1/recommendations")[0]["expired"].startswith(message)
    plan = guarded.client.post(f"/v1/campaigns/{one.id}/plans", headers=headers, json={})
    assert any(note.startswith(message) for note in plan.json()["notes"])
    get(f"/v1/campaigns/{one.id}/drift")  # pages wait only briefly for a campaign to be read
    for path in ("/", f"/campaigns/{one.id}", f"/campaigns/{one.id}/recommendation"):
        page = guarded.client.get(path, headers={**headers, "Accept": "text/html"})
        assert message in page.text, path


def test_the_drift_of_the_baseline_has_a_point_for_each_block(client: TestClient) -> None:
    points = client.get("/v1/campaigns/last/drift").json()
    assert [p["block"] for p in points] == list(range(1, len(points) + 1))
    assert {p["kind"] for p in points} == {"pilot", "search", "certify"}
    assert 0.9 < min(p["ratio"] for p in points) < 1 < max(p["ratio"] for p in points) < 1.1


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_all_pages_together_contain_what_is_stored(
    client: TestClient, measured: Path, what: str, limit: int
) -> None:
    pages = everything(client, f"/v1/campaigns/last/{what}", limit)
    assert all(len(page) <= limit for page in pages)
    items = [item for page in pages for item in page]
    with Store.open(measured) as store:
        campaign = store.campaign("last").id
        blocks = store.blocks(campaign)
        expected = {
            "trials": [t.number for t in store.trials(campaign)],
            "blocks": [b.number for b in blocks],
            "measurements": [(b.number, m.trial) for b in blocks for m in b.measurements],
            "events": [e.number for e in store.events(campaign)],
        }[what]
    if what == "measurements":
        assert [(item["block"], item["trial"]) for item in items] == expected
        assert [
            {name: part["elapsed_s"] for name, part in item["components"].items()} for item in items
        ] == [
            {name: part.elapsed_s for name, part in m.components.items()}
            for b in blocks
            for m in b.measurements
        ]
    else:
        assert [item["number"] for item in items] == expected


def everything(client: TestClient, path: str, limit: int) -> list[list[dict[str, Any]]]:
    """All pages of a list."""
    pages, token = [], None
    for _ in range(5000):
        query = {"limit": str(limit)} | ({"page": token} if token else {})
        answer = client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["items"])
        token = answer.json()["next"]
        if token is None:
            return pages
    raise AssertionError("the pages have no end")


def test_campaigns_come_in_pages_newest_first(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    for number in range(5):
        file.write_text(
            f"name: number {number}\ntestbed: {{simulated: {{}}}}\n"
            "spaces: {cache_manager: openafs-cache-manager-fuse-1.8}\n"
            "workload: mixed-use\npilot: {blocks: 0}\nbudget: {wall_time: 1m}\n"
        )
        fstune(tmp_path, "run", str(file))
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        pages = everything(client, "/v1/campaigns", 2)
        assert [len(page) for page in pages] == [2, 2, 1]
        names = [campaign["name"] for page in pages for campaign in page]
        assert names == [f"number {n}" for n in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize("what", ["blocks", "events"])
def test_a_list_may_start_after_a_number(client: TestClient, what: str) -> None:
    path = f"/v1/campaigns/last/{what}"
    items = [item for page in everything(client, path, 1000) for item in page]
    middle = items[len(items) // 2]["number"]
    answer = client.get(path, params={"after": middle, "limit": 1}).json()
    rest = client.get(path, params={"after": middle, "limit": 1000, "page": answer["next"]})
    assert answer["items"] + rest.json()["items"] == items[middle:]
    assert client.get(path, params={"after": -1}).status_code == 422


def test_verdicts_agree_with_the_answer(client: TestClient) -> None:
    verdicts = client.get("/v1/campaigns/last/verdicts").json()
    document = client.get("/v1/campaigns/last/recommendation").json()
    kinds = {verdict["kind"] for verdict in verdicts}
    assert kinds == {"pilot", "search", "certify"}
    (final,) = [v for v in verdicts if v["kind"] == "certify" and v["trial"] == document["trial"]]
    assert final["outcome"] == "better"
    assert final["ratio"] == pytest.approx(document["improvement"]["ratio"], rel=1e-3)


def test_events_are_streamed_completely_and_resumed_after_an_interruption(
    client: TestClient,
) -> None:
    listed = client.get("/v1/campaigns/last/events", params={"limit": 1000}).json()["items"]
    assert streamed(client, {}) == listed
    middle = listed[len(listed) // 2]["number"]
    assert streamed(client, {"Last-Event-ID": str(middle)}) == listed[middle:]
    assert streamed(client, {"Last-Event-ID": str(listed[-1]["number"])}) == []


def test_events_can_be_listed_by_kind_and_from_the_end(client: TestClient) -> None:
    def listed(**query: int | str) -> list[dict[str, object]]:
        answer = client.get("/v1/campaigns/last/events", params=query)
        assert answer.status_code == 200, answer.text
        assert answer.json()["next"] is None
        return list(answer.json()["items"])

    every = listed(limit=1000)
    some = [one for one in every if one["kind"] in ("measured", "started")]
    assert 3 < len(some) < len(every)
    assert listed(limit=1000, kinds="measured,started") == some
    assert listed(newest=3) == every[-3:]
    assert listed(newest=2, kinds="measured") == [o for o in some if o["kind"] == "measured"][-2:]
    assert listed(newest=1000, after=every[4]["number"]) == every[5:]  # type: ignore[arg-type]
    assert listed(kinds="no-such-kind") == []
    first = client.get("/v1/campaigns/last/events", params={"limit": 1}).json()["next"]
    refused = client.get("/v1/campaigns/last/events", params={"newest": 1, "page": first})
    assert refused.status_code == 422
    assert "newest: all of them are in one page" in refused.json()["detail"]


def streamed(client: TestClient, headers: dict[str, str]) -> list[dict[str, object]]:
    """The events in the stream of a campaign that is over."""
    events = []
    with client.stream("GET", "/v1/campaigns/last/events/stream", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = data = number = ""
        for line in answer.iter_lines():
            word, _, rest = line.partition(": ")
            if word == "event":
                name = rest
            elif word == "data":
                data = rest
            elif word == "id":
                number = rest
            elif not line and name == "campaign":
                events.append(json.loads(data))
                assert events[-1]["number"] == int(number)
                name = ""
            elif not line and name == "over":
                return events
    raise AssertionError("the stream ended without saying so")


def test_recommendations_are_found_by_testbed_workload_space_and_version(
    client: TestClient,
) -> None:
    ask = "/v1/recommendations"
    (best,) = client.get(ask).json()
    fitting = {
        "testbed": "simulated",
        "workload": "mixed-use",
        "space": "openafs-cache-manager-fuse-1.8",
        "version": "simul",
    }
    assert client.get(ask, params=fitting).json()[0]["campaign"] == best["campaign"]
    for word in fitting:
        assert client.get(ask, params=fitting | {word: "other"}).json() == []
    assert best["recommendation"]["flags"]["cache_manager"]["line"].startswith("-daemons ")
    assert len(best["fingerprint"]) == 16
    # The explanations would require reading the measurements of each campaign.
    assert best["recommendation"]["why"] is None
    assert best["age_s"] >= 0


def test_spaces_workloads_and_testbeds_are_listed(client: TestClient) -> None:
    spaces = client.get("/v1/spaces").json()
    names = [space["name"] for space in spaces]
    assert "openafs-fileserver-1.8" in names
    space = client.get("/v1/spaces/openafs-fileserver-1.8").json()
    assert "threads" in space["parameters"]
    workloads = {w["name"]: w for w in client.get("/v1/workloads").json()}
    assert sum(workloads["mixed-use"]["components"].values()) == pytest.approx(1)
    assert client.get("/v1/workloads/mixed-use").json()["name"] == "mixed-use"
    assert client.get("/v1/testbeds").json() == []


def test_an_empty_store_has_no_campaigns(tmp_path: Path) -> None:
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        assert client.get("/v1/campaigns").json() == {"items": [], "next": None}
        assert client.get("/v1/campaigns/last").status_code == 404
        assert client.get("/v1/recommendations").json() == []
