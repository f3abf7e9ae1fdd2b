"""Attack: a client of the service, with a token or without, or somebody in between."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api import starting, watching
from api.app import create_app
from api.cookies import COOKIE
from api.documents import EventDocument
from api.watching import Feeds
from tests.unit.api.conftest import Guarded, fstune, guarded, with_tokens
from tests.unit.api.test_steering import SPEC, post, state, wait_until_finished
from tests.unit.conftest import postgresql
from tests.unit.store import records
from tests.unit.store.conftest import state_directory
from tests.unit.store.test_migrations import earlier, empty
from tests.waiting import wait_for
from tuner.errors import ConflictError, SpecError, StoreError
from tuner.holders import is_gone, this_process
from tuner.model import Event
from tuner.settings import ServiceSettings
from tuner.states import CampaignState
from tuner.store import NewEvent, Store, upgrade
from tuner.store.access import Access
from tuner.store.opening import FILE
from tuner.store.verifications import Verifications
from tuner.text import moment
from tuner.tokens import Scope

__all__ = [
    "earlier",
    "empty",
    "guarded",
    "post",
    "postgresql",
    "state_directory",
    "with_tokens",
]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
Post = Callable[..., Any]


@pytest.mark.parametrize("where", ["before", "while"])
def test_an_interrupted_request_is_completed_by_the_next(
    guarded: Guarded, post: Post, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The service or the machine dies at any moment between the request and the run's start."""

    def dies(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("the machine dies")

    with monkeypatch.context() as patched:
        if where == "before":
            patched.setattr(Store, "create_campaign", dies)
        else:
            patched.setattr("api.starting.subprocess.Popen", dies)
        with pytest.raises(RuntimeError, match="the machine dies"):
            post("/v1/campaigns", SPEC, Idempotency_Key="one")
    again = post("/v1/campaigns", SPEC, Idempotency_Key="one")
    assert again.status_code == 202, again.text
    wait_until_finished(guarded, again.json()["id"])
    listed = guarded.client.get("/v1/campaigns", headers=guarded.headers(Scope.READ)).json()
    assert len(listed["items"]) == 1


def test_a_repeated_request_starts_one_run(
    guarded: Guarded, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    real = subprocess.Popen

    def count(*arguments: Any, **options: Any) -> Any:
        runs.append("run")
        return real(*arguments, **options)

    monkeypatch.setattr("api.starting.subprocess.Popen", count)
    answers = [post("/v1/campaigns", SPEC, Idempotency_Key="one") for _ in range(3)]
    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    wait_until_finished(guarded, answers[0].json()["id"])
    assert post("/v1/campaigns", SPEC, Idempotency_Key="one").json()["state"] == "finished"
    assert runs == ["run"]


def test_the_stream_of_a_revoked_token_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_MAY_S", 0.05)
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("watched", "{}", 1, NOW).id
        access = Access(store)
        token, _ = access.create("one", Scope.READ, NOW, None)
        session, _ = access.create("one", Scope.READ, NOW, NOW + timedelta(1), token.id)

        async def watch() -> list[int]:
            numbers = []
            feeds = Feeds(store, most=10)
            async for event in feeds.watch(campaign, 0, lambda: access.holds(session, NOW)):
                assert isinstance(event, Event)
                numbers.append(event.number)
                access.revoke(token.id, NOW)
                store.add_event(campaign, NewEvent(NOW, "secret", "not for them"))
            return numbers

        assert asyncio.run(asyncio.wait_for(watch(), 30.0)) == [1]


@pytest.mark.parametrize(
    "change",
    [
        {"budget": {"wall_time": 1e12}},
        {"budget": {"wall_time": 1e308}},
        {"budget": {"wall_time": 10**400}},
        {"budget": {"wall_time": "99999999999999999999d"}},
        {"spaces": {"cache_manager": {"name": SPEC["spaces"]["cache_manager"]["name"],
                                      "range": {"blocks": [100000, 10**400]}}}},
        {"spaces": {"cache_manager": {"name": SPEC["spaces"]["cache_manager"]["name"],
                                      "fix": {"blocks": -(10**400)}}}},
        {"seed": 10**400},
    ],
)  # fmt: skip
def test_excessive_numbers_are_refused(
    guarded: Guarded, post: Post, change: dict[str, Any]
) -> None:
    answer = post("/v1/campaigns", SPEC | change)
    assert answer.status_code == 422, answer.text
    assert len(answer.text) < 2000
    page = guarded.client.get("/", headers=guarded.headers(Scope.READ))
    assert page.status_code == 200


def test_nested_event_data_in_the_database_is_shown() -> None:
    """As in a database to which an earlier release has admitted it."""
    data: Any = {"a": {"b": [1, {"c": None}]}, "n": 1}
    document = EventDocument.model_validate(Event(1, NOW, "news", "news", data))
    assert document.data == {"a": '{"b": [1, {"c": null}]}', "n": 1}
    assert moment(NOW)


def behind(directory: Path, trusted: str, client: str) -> TestClient:
    """Return a client at an address, with the service behind uvicorn's check of trusted proxies."""
    settings = ServiceSettings(auth=True, requests_per_s=0.001, burst=3)
    app = create_app(directory, settings)
    proxied_app: Any = ProxyHeadersMiddleware(cast("Any", app), trusted_hosts=trusted)
    return TestClient(
        proxied_app,
        base_url="http://tuning.example.org",
        client=(client, 4000),
    )


def login(client: TestClient, token: str, user: str) -> int:
    headers = {
        "X-Forwarded-For": user,
        "X-Forwarded-Proto": "https",
        "Origin": "https://tuning.example.org",
    }
    answer = client.post("/login", data={"token": token}, headers=headers, follow_redirects=False)
    return answer.status_code


def test_a_trusted_proxy_speaks_for_its_users(tmp_path: Path) -> None:
    token = fstune(tmp_path, "token", "create", "one").split()[0]
    with behind(tmp_path, "10.9.0.0/24", "10.9.0.7") as client:
        users = [f"192.0.2.{n}" for n in range(5)]
        assert [login(client, token, user) for user in users] == [303] * 5
        assert [login(client, token, users[0]) for _ in range(3)] == [303, 303, 429]


def test_forwarded_addresses_of_others_are_ignored(tmp_path: Path) -> None:
    token = fstune(tmp_path, "token", "create", "one").split()[0]
    with behind(tmp_path, "10.9.0.0/24", "10.9.1.7") as client:
        assert login(client, token, "192.0.2.1") == 403  # not the service's own page by HTTP
        assert [login(client, token, f"192.0.2.{n}") for n in range(4)][-1] == 429


@pytest.mark.parametrize("address", ["proxy.example.org", "10.0.0.0/8/8", "*", ""])
def test_a_proxy_is_named_by_its_address(tmp_path: Path, address: str) -> None:
    with pytest.raises((SpecError, AssertionError), match="trusted-proxy"):
        fstune(tmp_path, "serve", "--trusted-proxy", address)


@pytest.mark.parametrize("earlier", ["0004"], indirect=True)
def test_tables_are_not_changed_under_a_running_campaign(earlier: Any) -> None:
    with earlier.raw() as connection:
        holder = this_process()
        now = datetime.now(UTC).replace(tzinfo=None)
        text = "UPDATE lease SET machine='{}', pid={}, start_ticks={}, beat='{}', limit_s=120.0"
        connection.exec_driver_sql(text.format(holder.machine, holder.pid, holder.start_ticks, now))
        connection.commit()
        leases = connection.exec_driver_sql("SELECT count(*) FROM lease").scalar()
    assert leases
    with pytest.raises(ConflictError, match=r"is running .process .* pause it"):
        upgrade(earlier.state_directory, earlier.address, is_gone)
    with pytest.raises(ConflictError, match=r"is running .process"):
        upgrade(earlier.state_directory, earlier.address)  # nothing is known about its end
    done = upgrade(earlier.state_directory, earlier.address, lambda holder: True)
    assert done.before != done.after


def test_a_campaign_is_queued_once(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated request finds it waiting."""
    with Store.open(guarded.directory) as store:
        starter = starting.Starter(store, guarded.directory, None, most=9)
        campaign = store.create_campaign("one", "{}", 1, NOW)
        store.move_campaign(campaign.id, CampaignState.RUNNING, "", records.event())
        started: list[str] = []
        monkeypatch.setattr(starter, "start", started.append)
        starter.begin(store.campaign(campaign.id))
        assert started == []
        starter.begin(campaign)
        starter.begin(campaign)
        assert started == [campaign.id]
    assert state(guarded, campaign.id) == "running"


def test_only_one_of_concurrent_changes_for_the_same_tag_is_made(guarded: Guarded) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("waiting", "{}", 1, NOW).id
    path = f"/v1/campaigns/{campaign}"
    tag = guarded.client.get(path, headers=guarded.headers(Scope.READ)).headers["etag"]
    headers = guarded.headers(Scope.OPERATE) | {"If-Match": tag}

    def cancel(_: int) -> int:
        return guarded.client.post(f"{path}/cancel", headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(cancel, range(8)))
    assert answers.count(202) == 1
    assert set(answers[1:]) <= {409, 412}


def test_a_request_that_cannot_be_cleared_does_not_keep_the_service_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an imported campaign whose events have the largest number that there is."""

    def refuse(*_: object) -> None:
        raise StoreError("integer out of range")

    monkeypatch.setattr(Verifications, "fail_all", refuse)
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(tmp_path, settings), base_url="http://localhost") as client:
        assert client.get("/readyz").status_code == 200


def test_no_cookie_but_the_session_is_parsed(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's parser may take seconds for a hostile one, in which nobody else is served."""
    parsed: list[str] = []

    def parse(text: str) -> dict[str, str]:
        parsed.append(text)
        return {}

    monkeypatch.setattr("starlette.requests.cookie_parser", parse)
    hostile = 'a="' + 1000 * "\\" + '"'
    for cookies in (hostile, f'{COOKIE}="{hostile}"', f"{hostile}; {COOKIE}=none"):
        for path in ("/v1/campaigns", "/healthz", "/login"):
            guarded.client.get(path, headers={"Cookie": cookies})
    assert set(parsed) <= {f"{COOKIE}=none"}


def test_nobody_without_a_token_learns_where_the_database_is(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    file = guarded.directory / FILE
    file.rename(guarded.directory / "elsewhere")
    for _ in range(3):
        answer = guarded.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["detail"] == (
            "the database cannot be used; see the log of the service"
        )
    assert [str(file) in line for line in caplog.messages] == [True]


def test_runs_are_limited(
    guarded: Guarded, post: Post, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A client in a loop would take all of the machine's memory."""
    processes: list[subprocess.Popen[bytes]] = []

    def sleep(run: object) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(["sleep", "300"]))
        request.addfinalizer(processes[-1].kill)
        return processes[-1]

    monkeypatch.setattr(starting, "_spawn", sleep)
    monkeypatch.setattr(guarded.client.app.state.service.starter, "_most", 2)  # type: ignore[attr-defined]
    first = [post("/v1/campaigns", SPEC) for _ in range(2)]
    assert [answer.status_code for answer in first] == [202, 202]
    refused = post("/v1/campaigns", SPEC, Idempotency_Key="one")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "60")
    assert refused.json()["type"] == "urn:fstune:too-many-runs"
    listed = guarded.client.get("/v1/campaigns", headers=guarded.headers(Scope.READ)).json()
    assert len(listed["items"]) == len(processes) == 2
    processes[0].kill()
    wait_for(
        lambda: post("/v1/campaigns", SPEC, Idempotency_Key="one").status_code == 202, "its turn"
    )
