"""Conventions of all routes: problems, ETags, headers and the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio.to_thread import current_default_thread_limiter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from api import schema
from api.app import create_app
from api.middleware import POLICY, Buckets, host_name
from api.paging import read_token, write_token
from tests.unit.api.conftest import Guarded
from tuner.errors import SpecError
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.store.opening import FILE
from tuner.store.tables import metadata
from tuner.tokens import Scope

DOCUMENT: dict[str, Any] = json.loads(schema.FILE.read_text())
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
READS = [path for path, method, _ in OPERATIONS if method == "get"]
WITHOUT_BODY = [
    path.replace("{campaign}", "last").replace("{plan}", "0" * 32)
    for path, method, operation in OPERATIONS
    if method != "get" and "requestBody" not in operation
]
WITH_BODY = [
    (path.replace("{campaign}", "last"), method)
    for path, method, operation in OPERATIONS
    if "requestBody" in operation
]


def is_problem(answer: Any, status: int) -> bool:
    """Check that a response is a well-formed problem with this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) == {"type", "title", "status", "detail"}
    assert body["status"] == status
    assert body["type"].startswith("urn:fstune:")
    return bool(body["title"] and body["detail"])


@pytest.mark.slow
def test_the_stored_document_matches_the_code() -> None:
    assert schema.FILE.read_text() == schema.document(), "run: make docs"


def test_every_operation_has_a_name_and_documents_its_problems() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names)
    for path, _, operation in OPERATIONS:
        answers = operation["responses"]
        statuses = {
            s for s, a in answers.items() if "application/problem+json" in a.get("content", {})
        }
        assert {"401", "403", "422", "429", "500"} <= statuses, path
        # FastAPI's own error format is not used.
        assert "HTTPValidationError" not in json.dumps(operation)
    assert "HTTPValidationError" not in DOCUMENT["components"]["schemas"]


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in READS if "{campaign}" in path])
def test_what_does_not_exist_is_a_problem(client: TestClient, path: str) -> None:
    assert is_problem(client.get(path.replace("{campaign}", "nosuch")), 404)


@pytest.mark.parametrize("path", READS)
def test_methods_that_no_route_has_are_problems(client: TestClient, path: str) -> None:
    other = "delete" if "delete" not in DOCUMENT["paths"][path] else "patch"
    answer = client.request(other.upper(), path.replace("{campaign}", "last"))
    assert is_problem(answer, 405)
    assert answer.json()["detail"] == f"this address accepts {answer.headers['allow']} only"


def test_static_files_name_the_methods_that_they_have(client: TestClient) -> None:
    answer = client.post("/static/fstune.js")
    assert is_problem(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.json()["detail"] == "this address accepts GET, HEAD only"


def test_no_such_path_is_a_problem(client: TestClient) -> None:
    answer = client.get("/v1/nothing")
    assert is_problem(answer, 404)
    assert answer.json()["detail"] == "there is no such address"
    assert is_problem(client.get("/static/nothing.js"), 404)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/campaigns", "limit=0"),
        ("/v1/campaigns", "limit=1001"),
        ("/v1/campaigns", "limit=x"),
        ("/v1/campaigns", "page=x"),
        ("/v1/campaigns", f"page={write_token((1, 2))}"),
        ("/v1/campaigns", f"page={write_token(('2026', 'x'))}"),
        ("/v1/campaigns/last/trials", f"page={write_token((2**31,))}"),
        ("/v1/campaigns/last/trials", f"page={write_token(('1',))}"),
        ("/v1/campaigns/last/measurements", f"page={write_token((1,))}"),
        ("/v1/campaigns/last/events", "newest=0"),
        ("/v1/campaigns/last/events", "newest=1001"),
        ("/v1/campaigns/last/events", f"kinds={'x' * 501}"),
        ("/v1/campaigns/last/events/stream", "after=-1"),
        ("/v1/campaigns/%00/trials", ""),
        ("/v1/spaces/..%5c", ""),
    ],
)
def test_what_is_wrong_in_a_request_is_a_problem(client: TestClient, path: str, query: str) -> None:
    assert is_problem(client.get(f"{path}?{query}"), 422)


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("/v1/campaigns?limt=3", "query.limt: unknown parameter; did you mean 'limit'?"),
        ("/v1/campaigns?since=1", "query.since: unknown parameter; known: limit, page"),
        ("/v1/spaces?limit=1", "query.limit: unknown parameter; this route has none"),
        ("/v1/campaigns?limit=1&limit=2", "query.limit: it is given twice"),
        ("/v1/campaigns?limit=x", "query.limit: write a whole number, not 'x'"),
        (
            "/v1/campaigns?limit=0",
            "query.limit: input should be greater than or equal to 1",
        ),
    ],
)
def test_a_wrong_query_parameter_is_named_with_what_is_right(
    client: TestClient, url: str, detail: str
) -> None:
    answer = client.get(url)
    assert is_problem(answer, 422)
    assert answer.json()["detail"] == detail


@pytest.mark.parametrize("path", WITHOUT_BODY)
def test_a_body_that_a_route_would_ignore_is_refused(client: TestClient, path: str) -> None:
    for content in (b'{"foo": 1}', b"[]", b"null", b"a=b", b"\xff", b"[" * 100_000):
        answer = client.post(path, content=content)
        assert is_problem(answer, 422), content
        assert answer.json()["type"] == "urn:fstune:bad-input"
        assert answer.json()["detail"] == "the body: this route takes none"
    for content in (b"", b"{}", b" { } "):
        # The service only reads.
        assert is_problem(client.post(path, content=content), 403), content


@pytest.mark.parametrize(("path", "method"), WITH_BODY)
def test_a_key_that_a_body_has_twice_is_refused(client: TestClient, path: str, method: str) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b'{"blocks": 10, "blocks": 20}', b'[{"a": {}, "blocks": 1, "blocks": 1}]'):
        answer = client.request(method, path, content=body, headers=headers)
        assert is_problem(answer, 422)
        assert answer.json()["type"] == "urn:fstune:bad-input"
        assert answer.json()["detail"] == "the body: the key 'blocks' is given twice in one mapping"


def test_what_belongs_into_the_query_is_named_when_it_is_in_the_body(client: TestClient) -> None:
    body = {"override_pilot": True, "zz": 1}
    answer = client.post("/v1/campaigns/last/resume", json=body)
    assert is_problem(answer, 422)
    assert answer.json()["detail"] == (
        "the body: this route takes none; override_pilot is a query parameter: ?override_pilot=..."
    )


def test_pages_accept_any_query_and_form(client: TestClient) -> None:
    assert client.get("/?from=a-mail", headers={"Accept": "text/html"}).status_code == 200
    # The service only reads.
    assert is_problem(client.post("/campaigns/last/pause", data={"from": "a-mail"}), 403)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operation=st.sampled_from([(path, o) for path, method, o in OPERATIONS if method == "get"]),
    word=st.text(min_size=1, max_size=12),
    query=st.text(),
)
def test_no_request_causes_a_defect(
    client: TestClient, operation: tuple[str, dict[str, Any]], word: str, query: str
) -> None:
    from urllib.parse import quote

    path, details = operation
    url = path.replace("{campaign}", quote(word, safe="")).replace("{name}", quote(word, safe=""))
    parameters = [each["name"] for each in details.get("parameters", ()) if each["in"] == "query"]
    answer = client.get(url, params=dict.fromkeys(parameters, query))
    assert answer.status_code in (200, 404, 422)
    if answer.status_code != 200:
        assert is_problem(answer, answer.status_code)


@pytest.mark.slow
def test_a_defect_reveals_no_details(tmp_path: Path) -> None:
    app = create_app(tmp_path)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("the password is unheard-of")

    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.get("/broken")
        assert is_problem(answer, 500)
        assert "unheard-of" not in answer.text


def test_an_unavailable_database_is_a_problem(tmp_path: Path) -> None:
    app = create_app(tmp_path)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/readyz").json() == {"status": "ok"}
        metadata.drop_all(app.state.service.store._database.writer)
        assert is_problem(client.get("/readyz"), 503)
        assert is_problem(client.get("/v1/campaigns"), 503)
        assert client.get("/healthz").json() == {"status": "ok"}


def test_a_service_whose_database_was_moved_or_replaced_is_not_ready(tmp_path: Path) -> None:
    file, elsewhere = tmp_path / FILE, tmp_path / "elsewhere"
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        assert client.get("/readyz").json() == {"status": "ok"}
        file.rename(elsewhere)
        answer = client.get("/readyz")
        assert is_problem(answer, 503)
        assert f"{FILE}: the file was moved, deleted or replaced" in answer.json()["detail"]
        file.write_bytes(elsewhere.read_bytes())
        assert is_problem(client.get("/readyz"), 503)
        elsewhere.rename(file)
        assert client.get("/readyz").json() == {"status": "ok"}


def test_a_service_without_a_free_thread_still_says_that_it_answers(tmp_path: Path) -> None:
    """All threads may be waiting for the database."""
    transport = httpx2.ASGITransport(create_app(tmp_path))

    async def ask() -> int:
        threads = current_default_thread_limiter()
        for number in range(int(threads.total_tokens)):
            threads.acquire_on_behalf_of_nowait(f"waits {number}")
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            return (await asyncio.wait_for(asking.get("/healthz"), 30.0)).status_code

    assert asyncio.run(ask()) == 200


@pytest.mark.parametrize("path", ["/v1/campaigns", "/v1/campaigns/last/measurements"])
def test_a_document_that_the_client_has_is_not_sent_again(client: TestClient, path: str) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    again = client.get(path, headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content
    for headers in ([("If-None-Match", "*")], [("If-None-Match", t) for t in ('"other"', tag)]):
        assert client.get(path, headers=headers).status_code == 304


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/campaigns", "/v1/nothing", "/healthz", "/openapi.json"])
def test_every_response_has_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "no-cache" in headers["cache-control"]


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/", "/openapi.json", "/static/fstune.js", "/v1/campaigns/last"]
)
def test_head_is_answered_as_get_without_the_body(client: TestClient, path: str) -> None:
    full, answer = client.get(path), client.head(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers == full.headers
    if tag := full.headers.get("etag"):
        assert client.head(path, headers={"If-None-Match": tag}).status_code == 304
    refused = client.post(path)
    assert refused.status_code == 405
    assert refused.headers["allow"].startswith("GET, HEAD")


def test_head_of_a_stream_does_not_wait_for_its_end(guarded: Guarded) -> None:
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("one", "{}", 1, datetime.now(UTC)).id
    path = f"/v1/campaigns/{campaign}/events/stream"
    answer = guarded.client.head(path, headers=guarded.headers(Scope.READ))
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert guarded.client.head(path).status_code == 401


def test_metrics_count_campaigns(client: TestClient) -> None:
    lines = client.get("/metrics").text.splitlines()
    assert 'fstune_campaigns{state="finished"} 1.0' in lines
    assert 'fstune_campaigns{state="running"} 0.0' in lines


def test_a_body_that_is_too_large_is_a_problem(client: TestClient) -> None:
    assert is_problem(client.post("/v1/campaigns", content=b"x" * (300 << 10)), 413)


def test_clients_that_send_too_many_requests_are_told_when_to_retry(tmp_path: Path) -> None:
    settings = ServiceSettings(requests_per_s=0.01, burst=3)
    with TestClient(create_app(tmp_path, settings), base_url="http://localhost") as client:
        assert [client.get("/healthz").status_code for _ in range(3)] == [200, 200, 200]
        refused = client.get("/healthz")
        assert is_problem(refused, 429)
        assert 1 <= int(refused.headers["retry-after"]) <= 100


def test_a_bucket_refills() -> None:
    now = 0.0
    buckets = Buckets(per_s=2.0, burst=2, clock=lambda: now)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    assert buckets.take("b") == 0.0
    now = 0.5
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0.0
    now = 100.0
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.5]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8710", "127.0.0.1.evil.example"])
def test_a_service_without_tokens_answers_only_to_its_own_names(tmp_path: Path, host: str) -> None:
    settings = ServiceSettings(hosts=frozenset({"tuning.example"}))
    with TestClient(create_app(tmp_path, settings), base_url="http://localhost") as client:
        assert is_problem(client.get("/v1/campaigns", headers={"Host": host}), 400)
        for ours in ("127.0.0.1:8710", "[::1]:8710", "localhost", "tuning.example:80"):
            assert client.get("/v1/campaigns", headers={"Host": ours}).status_code == 200


@pytest.mark.parametrize(
    ("header", "name"), [("a:1", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("A", "a"), ("", "")]
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.slow
@given(key=st.lists(st.one_of(st.text(max_size=20), st.integers(-1, 2**31 - 1)), max_size=3))
def test_a_page_token_is_decoded_to_its_key(key: list[str | int]) -> None:
    assert read_token(write_token(key), *map(type, key)) == key


@pytest.mark.parametrize(
    "key",
    [
        ("2026-01-01T00:00:00+00:00", "\ud800"),
        ("0001-01-01T00:00:00+23:59", "a"),
        ("9999-12-31T23:59:59-23:59", "a"),
        ("2026-01-01T00:00:00", "a"),
        ("\ud800", "a"),
    ],
)
def test_an_altered_token_of_a_page_of_campaigns_is_refused(
    client: TestClient, key: tuple[str, str]
) -> None:
    for path in ("/v1/campaigns", "/campaigns"):
        answer = client.get(path, params={"page": write_token(key)})
        assert is_problem(answer, 422)


@given(word=st.text(max_size=40))
def test_any_other_page_token_is_rejected(word: str) -> None:
    try:
        key = read_token(word, int)
    except SpecError:
        return
    assert key is not None
    assert isinstance(key[0], int)
