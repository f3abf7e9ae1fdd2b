"""Starting and steering campaigns: accepted, rejected and repeated requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.starting import Starter
from tests.unit.api.conftest import Guarded, fstune
from tests.unit.api.test_conventions import is_problem
from tests.waiting import wait_for
from tuner.errors import SpecError
from tuner.holders import is_gone, this_process
from tuner.remote.records import read_campaign
from tuner.settings import ServiceSettings
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState, EventKind
from tuner.store import NewEvent, Store
from tuner.tokens import Scope

pytestmark = pytest.mark.slow

SPEC: dict[str, Any] = {
    "name": "from afar",
    "testbed": {"simulated": {"effects": [{"parameter": "cache_manager.daemons", "change": -0.3}]}},
    "spaces": {"cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]}},
    "workload": "mixed-use",
    "pilot": {"blocks": 0},
    "search": {"arms": 2, "blocks_per_trial": 3, "max_trials": 1},
    "certification": {"blocks": 3},
    "budget": {"wall_time": "20m"},
}
TESTBED = """
name: spare
path: /afs/.:mount/example.org:bench
server:
  reach: {ssh: {address: fs9.example.org}}
  address: 192.0.2.9
  volumes: [bench]
clients:
  - {name: c1, reach: {ssh: {address: c1.example.org}}, control: {fuse: {}}}
"""


@pytest.fixture
def post(guarded: Guarded) -> Callable[..., Any]:
    def send(path: str, document: object = None, **headers: str) -> Any:
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        return guarded.client.post(
            path, json=document, headers=guarded.headers(Scope.OPERATE) | extra
        )

    return send


def state(guarded: Guarded, campaign: str = "last") -> str:
    answer = guarded.client.get(f"/v1/campaigns/{campaign}", headers=guarded.headers(Scope.READ))
    return str(answer.json()["state"])


def wait_until_finished(guarded: Guarded, campaign: str) -> None:
    """Wait for a campaign to end, and check that it finished."""
    over = ("finished", "failed", "paused")
    wait_for(lambda: state(guarded, campaign) in over, "the end of the campaign")
    assert state(guarded, campaign) == "finished"


def test_a_campaign_is_started_and_reaches_its_answer(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    answer = post("/v1/campaigns", SPEC)
    assert answer.status_code == 202, answer.text
    campaign = answer.json()["id"]
    assert answer.headers["location"] == f"/v1/campaigns/{campaign}"
    wait_until_finished(guarded, campaign)
    document = guarded.client.get(
        f"/v1/campaigns/{campaign}/recommendation", headers=guarded.headers(Scope.READ)
    ).json()
    assert document["answer"] in ("recommended", "no_improvement")
    assert is_problem(post(f"/v1/campaigns/{campaign}/pause"), 409)
    assert is_problem(post(f"/v1/campaigns/{campaign}/resume"), 409)
    assert is_problem(post(f"/v1/campaigns/{campaign}/cancel"), 409)
    branch = post(f"/v1/campaigns/{campaign}/branch", SPEC | {"name": "the next"})
    assert branch.status_code == 202, branch.text
    assert branch.json()["name"] == "the next"
    assert branch.json()["guiding_trials"] > 0
    assert branch.json()["unguided"] == ""
    wait_until_finished(guarded, branch.json()["id"])


def test_a_branch_says_why_no_trial_guides_it(guarded: Guarded, post: Callable[..., Any]) -> None:
    with Store.open(guarded.directory) as store:
        spec = CampaignSpec.model_validate(SPEC)
        old = store.create_campaign("old", spec.to_json(), 1, datetime.now(UTC)).id
    first = post(f"/v1/campaigns/{old}/branch", SPEC, Idempotency_Key="one")
    assert first.status_code == 202, first.text
    assert first.json()["guiding_trials"] == 0
    assert first.json()["unguided"].startswith("it measured none in a search")
    wait_until_finished(guarded, first.json()["id"])
    again = post(f"/v1/campaigns/{old}/branch", SPEC, Idempotency_Key="one").json()
    assert (again["id"], again["guiding_trials"]) == (first.json()["id"], 0)
    assert again["unguided"] == "none could when the campaign was created"
    # What reads a campaign reads a branch.
    assert read_campaign(first.json()).id == first.json()["id"]


def test_a_repeated_request_starts_only_one_campaign(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    first = post("/v1/campaigns", SPEC, Idempotency_Key="one")
    again = post("/v1/campaigns", SPEC, Idempotency_Key="one")
    assert first.status_code == again.status_code == 202
    assert first.json()["id"] == again.json()["id"]
    other = post("/v1/campaigns", SPEC | {"seed": 2}, Idempotency_Key="one")
    assert is_problem(other, 409)
    # A key belongs to its token.
    stranger = guarded.client.post(
        "/v1/campaigns",
        json=SPEC,
        headers=guarded.headers(Scope.ADMIN) | {"Idempotency-Key": "one"},
    )
    assert stranger.status_code == 202
    assert stranger.json()["id"] != first.json()["id"]
    # A rejected request does not use up its key.
    refused = post("/v1/campaigns", SPEC | {"workload": "nosuch"}, Idempotency_Key="two")
    assert is_problem(refused, 422)
    third = post("/v1/campaigns", SPEC, Idempotency_Key="two")
    assert third.status_code == 202
    for accepted in (first, stranger, third):
        wait_until_finished(guarded, accepted.json()["id"])


def test_a_repeated_branch_of_the_last_campaign_is_recognized(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    """It becomes the last one itself."""
    old = post("/v1/campaigns", SPEC).json()["id"]
    wait_until_finished(guarded, old)
    first = post("/v1/campaigns/last/branch", SPEC | {"name": "the next"}, Idempotency_Key="one")
    assert first.status_code == 202, first.text
    wait_until_finished(guarded, first.json()["id"])
    assert state(guarded) == "finished"
    last = guarded.client.get("/v1/campaigns/last", headers=guarded.headers(Scope.READ)).json()
    assert last["id"] == first.json()["id"] != old
    again = post("/v1/campaigns/last/branch", SPEC | {"name": "the next"}, Idempotency_Key="one")
    assert again.status_code == 202, again.text
    assert again.json()["id"] == first.json()["id"]
    other = post(f"/v1/campaigns/{old}/branch", SPEC | {"name": "the next"}, Idempotency_Key="one")
    assert is_problem(other, 409)
    assert is_problem(post("/v1/campaigns/nosuch/branch", SPEC, Idempotency_Key="two"), 404)


def test_a_body_of_another_type_is_refused_with_the_type_to_send(guarded: Guarded) -> None:
    content = json.dumps(SPEC).encode()
    for kind in ({}, {"Content-Type": "application/x-www-form-urlencoded"}):
        headers = guarded.headers(Scope.OPERATE) | kind
        answer = guarded.client.post("/v1/campaigns", content=content, headers=headers)
        assert answer.status_code == 422
        assert "'Content-Type: application/json'" in answer.json()["detail"]


def test_a_body_that_is_no_campaign_file_is_refused(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    headers = guarded.headers(Scope.OPERATE) | {"Content-Type": "application/json"}
    answer = guarded.client.post("/v1/campaigns", content=b"{name: x}", headers=headers)
    assert is_problem(answer, 422)
    assert answer.json()["detail"].startswith("the body is not JSON: ")
    bodies: tuple[object, ...] = (None, [], "x")
    for body in bodies:
        answer = post("/v1/campaigns", body)
        assert is_problem(answer, 422)
        assert answer.json()["detail"].startswith("the body: ")
    for content in (b'{"name": "caf\xe9"}', b"[" * 100_000):
        answer = guarded.client.post("/v1/campaigns", content=content, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:fstune:bad-input")
        assert answer.json()["detail"].startswith("the body is not JSON")


def test_a_specification_with_a_key_twice_starts_no_campaign(guarded: Guarded) -> None:
    headers = guarded.headers(Scope.OPERATE) | {"Content-Type": "application/json"}
    content = json.dumps(SPEC).removesuffix("}") + ', "workload": "office"}'
    answer = guarded.client.post("/v1/campaigns", content=content.encode(), headers=headers)
    assert is_problem(answer, 422)
    assert "the key 'workload' is given twice" in answer.json()["detail"]
    assert guarded.client.get("/v1/campaigns", headers=headers).json()["items"] == []


def test_the_newest_campaign_cannot_be_cancelled_without_its_identifier(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("waiting", "{}", 1, datetime.now(UTC)).id
    for path in ("/v1/campaigns/last/cancel", "/campaigns/last/cancel"):
        answer = post(path)
        assert is_problem(answer, 422)
        assert f"it would be {campaign} (waiting); use its identifier" in answer.json()["detail"]
        assert state(guarded, campaign) == "created"


@pytest.mark.parametrize("wish", ["pause", "cancel"])
def test_what_a_dead_process_left_is_named_wherever_the_campaign_is_shown(
    guarded: Guarded, post: Callable[..., Any], wish: str
) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("died", "{}", 1, datetime.now(UTC)).id
        event = NewEvent(datetime.now(UTC), "told", "told by a test")
        store.move_campaign(campaign, CampaignState.RUNNING, "", event)
        answer = post(f"/v1/campaigns/{campaign}/{wish}")
        assert answer.status_code == 202, answer.text
        for text in (answer.json()["reason"], store.events(campaign)[-1].message):
            assert "it has not restored its testbed" in text
            assert "fstune " in text


def verification(guarded: Guarded, state: CampaignState) -> str:
    """Store a verification in this state, which no process runs; returns its identifier."""
    now = datetime.now(UTC)
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("verify", "{}", 1, now).id
        store.add_event(campaign, NewEvent(now, EventKind.VERIFICATION, "it verifies another"))
        store.move_campaign(campaign, state, "", NewEvent(now, "told", "told by a test"))
    return campaign


def test_a_verification_whose_process_died_is_cancelled_but_not_paused(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    campaign = verification(guarded, CampaignState.RUNNING)
    answer = post(f"/v1/campaigns/{campaign}/pause")
    assert is_problem(answer, 409)
    assert "is a verification, which cannot be resumed" in answer.json()["detail"]
    assert state(guarded, campaign) == "running"
    answer = post(f"/v1/campaigns/{campaign}/cancel")
    assert answer.status_code == 202
    assert "; 'fstune verify', run again, does that, and so do " in answer.json()["reason"]
    assert state(guarded, campaign) == "cancelled"


def test_a_verification_that_is_over_says_that_it_is_one_when_it_is_resumed(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    campaign = verification(guarded, CampaignState.CANCELLED)
    answer = post(f"/v1/campaigns/{campaign}/resume")
    assert is_problem(answer, 409)
    assert "is a verification, which cannot be resumed" in answer.json()["detail"]


def test_a_change_is_rejected_if_the_campaign_has_changed_meanwhile(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("waiting", "{}", 1, datetime.now(UTC)).id
    path = f"/v1/campaigns/{campaign}"
    tag = guarded.client.get(path, headers=guarded.headers(Scope.READ)).headers["etag"]
    assert is_problem(post(f"{path}/cancel", If_Match='"another"'), 412)
    assert state(guarded, campaign) == "created"
    assert post(f"{path}/cancel", If_Match=tag).status_code == 202
    assert state(guarded, campaign) == "cancelled"
    assert is_problem(post(f"{path}/cancel", If_Match=tag), 412)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"workload": "/etc/passwd"}, "workload"),
        ({"workload": "../workloads/mixed-use.yaml"}, "workload"),
        ({"workload": {"name": "mixed-use", "scale": -1}}, "scale"),
        ({"spaces": {"cache_manager": "/tmp/space.yaml"}}, "spaces.cache_manager"),
        ({"testbed": {"hosts": "/tmp/testbed.yaml"}}, "testbed.hosts"),
        ({"testbed": {"hosts": "../registered"}}, "testbed.hosts"),
        ({"testbed": {"cell": {}}}, "testbed.cell: not allowed"),
        ({"testbed": {}}, "name exactly one kind"),
        ({"references": [{"name": "disk", "path": "/tmp"}]}, "references"),
        ({"first": [{"cache_manager.nosuch": 1}]}, "no parameter"),
        ({"serch": {}}, "serch: unknown key; did you mean 'search'?"),
        ({"seed": "x"}, "seed: write a whole number, not 'x'"),
        ({"name": "a/b"}, "name: use 1 to 80 letters, digits, spaces"),
    ],
)
def test_a_request_may_not_name_paths_or_unknown_things(
    post: Callable[..., Any], change: dict[str, object], why: str
) -> None:
    answer = post("/v1/campaigns", SPEC | change)
    assert is_problem(answer, 422)
    assert why in answer.json()["detail"]


def test_only_registered_testbeds_can_be_used(tmp_path: Path) -> None:
    registered = tmp_path / "testbeds"
    registered.mkdir()
    (registered / "spare.yaml").write_text(TESTBED)
    (registered / "broken.yaml").write_text("name: [")
    state_directory = tmp_path / "state"
    token = fstune(state_directory, "token", "create", "one", "--scope", "operate").split()[0]
    headers = {"Authorization": f"Bearer {token}"}
    settings = ServiceSettings(auth=True, testbeds=registered)
    with TestClient(create_app(state_directory, settings), base_url="http://service") as client:
        (listed,) = client.get("/v1/testbeds", headers=headers).json()
        assert listed == {"name": "spare", "kind": "hosts", "title": "spare", "hosts": 2}
        for name in ("broken", "other", "spare.yaml", str(registered / "spare")):
            answer = client.post(
                "/v1/campaigns", json=SPEC | {"testbed": {"hosts": name}}, headers=headers
            )
            assert is_problem(answer, 422), name
        assert client.get("/v1/campaigns", headers=headers).json()["items"] == []


def test_a_campaign_on_a_testbed_in_use_is_refused_and_not_stored(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    spec = SPEC | {"testbed": {"simulated": SPEC["testbed"]["simulated"] | {"name": "hall 7"}}}
    with Store.open(guarded.directory) as store:
        now = datetime.now(UTC)
        other = store.create_campaign("other", "{}", 1, now).id
        released = NewEvent(now, "told", "told by a test")
        (lease,) = store.take_testbeds(
            other, ["simulated hall 7"], this_process(), 60.0, is_gone, released
        )
        answer = post("/v1/campaigns", spec)
        assert is_problem(answer, 409)
        assert f"testbed simulated hall 7 is in use by campaign {other}" in answer.json()["detail"]
        assert [one.id for one in store.campaigns()] == [other]
        store.give_back(lease)
    wait_until_finished(guarded, post("/v1/campaigns", spec).json()["id"])


@pytest.mark.parametrize("forbidden", ["simulated", "hosts"])
def test_a_campaign_is_not_resumed_on_a_testbed_that_is_no_longer_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    started: list[str] = []
    monkeypatch.setattr(Starter, "start", lambda _, campaign, **options: started.append(campaign))
    registered = tmp_path / "testbeds"
    registered.mkdir()
    file = registered / "spare.yaml"
    file.write_text(TESTBED)
    state_directory = tmp_path / "state"
    token = fstune(state_directory, "token", "create", "one", "--scope", "operate").split()[0]
    headers = {"Authorization": f"Bearer {token}"}
    testbeds: dict[str, object] = {
        "simulated": SPEC["testbed"],
        "hosts": {"hosts": f"{registered}/../testbeds/spare.yaml"},
    }
    with Store.open(state_directory) as store:
        old = CampaignSpec.model_validate(SPEC | {"testbed": testbeds[forbidden]})
        campaign = store.create_campaign("old", old.to_json(), 1, datetime.now(UTC)).id
        path = f"/v1/campaigns/{campaign}/resume"
        for allowed in (True, False):
            if not allowed:
                file.unlink()
            allow = frozenset({"simulated"} if allowed else ())
            settings = ServiceSettings(auth=True, testbeds=registered, allow=allow)
            with TestClient(create_app(state_directory, settings), base_url="http://x") as client:
                answer = client.post(path, headers=headers)
            if allowed:
                assert answer.status_code == 202, answer.text
        assert is_problem(answer, 409)
        assert f"testbed.{forbidden}: " in answer.json()["detail"]
        assert answer.json()["detail"].endswith(f"command line: fstune resume {campaign}")
        assert started == [campaign]
        kinds = [event.kind for event in store.events(campaign)]
    assert kinds == ["campaign-created", "resume-requested"]


def test_a_run_that_does_not_start_records_why(guarded: Guarded, post: Callable[..., Any]) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("broken", "{}", 1, datetime.now(UTC)).id
    assert post(f"/v1/campaigns/{campaign}/resume").status_code == 202
    wait_for(lambda: state(guarded, campaign) == "failed", "the campaign to fail")
    answer = guarded.client.get(
        f"/v1/campaigns/{campaign}/events", headers=guarded.headers(Scope.READ)
    )
    events = answer.json()["items"]
    assert [event["kind"] for event in events] == [
        "campaign-created",
        "resume-requested",
        "start-failed",
    ]


def test_a_run_that_cannot_be_started_records_why(
    guarded: Guarded, post: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(starter: Starter, campaign: str, *, override_pilot: bool = False) -> None:
        raise SpecError("its file is gone")

    monkeypatch.setattr(Starter, "start", fail)
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("broken", "{}", 1, datetime.now(UTC)).id
        assert is_problem(post(f"/v1/campaigns/{campaign}/resume"), 422)
        last = store.events(campaign)[-1]
    assert (last.kind, last.message) == ("start-failed", "its file is gone")


def test_a_new_campaign_whose_process_cannot_be_started_records_why(
    guarded: Guarded, post: Callable[..., Any]
) -> None:
    logs = guarded.directory / "logs"
    logs.write_text("not a directory")
    why = "the run cannot be started: File exists"
    answer = post("/v1/campaigns", SPEC, Idempotency_Key="one")
    assert is_problem(answer, 503)
    assert answer.json()["detail"] == why
    with Store.open(guarded.directory) as store:
        (campaign,) = store.campaigns()
        last = store.events(campaign.id)[-1]
    assert (last.kind, last.message) == ("start-failed", why)
    logs.unlink()
    assert post("/v1/campaigns", SPEC, Idempotency_Key="one").json()["id"] == campaign.id
    wait_until_finished(guarded, campaign.id)
