"""Handling of a server's answers: requests are retried, and refusals become errors of ours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tuner import errors
from tuner.errors import (
    ConflictError,
    NotFoundError,
    ServerError,
    SpecError,
    StalePlanError,
    StoreError,
    TestbedError,
    TransportError,
    TunerError,
)
from tuner.hosts.connector import CommandFailed
from tuner.model import Wish
from tuner.records.status import Absence
from tuner.remote.address import Address, address_of
from tuner.remote.campaigns import Campaigns
from tuner.remote.client import PATIENCE_S, Client, Unreachable, campaign_path
from tuner.remote.stream import follow
from tuner.settings import ClientSettings

Answer = httpx2.Response | Exception


class Server(httpx2.BaseTransport):
    """Sends the given answers in turn, and records the requests."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        result = answer() if callable(answer) else answer
        if isinstance(result, Exception):
            raise result
        return result


def problem(status: int, kind: str, detail: str, **headers: str) -> httpx2.Response:
    body = {"type": f"urn:fstune:{kind}", "title": "", "status": status, "detail": detail}
    return httpx2.Response(status, json=body, headers=headers)


def client(server: Server, waits: list[float] | None = None) -> Client:
    address = Address("https://tuning.example.org", False, "s3cret")
    pause = (lambda _: None) if waits is None else waits.append
    return Client(address, pause=pause, transport=server)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (problem(404, "not-found", "there is no campaign 7"), NotFoundError, "no campaign 7"),
        (problem(409, "conflict", "it does not run"), ConflictError, "it does not run"),
        (problem(422, "bad-input", "workload: none"), SpecError, "workload: none"),
        (problem(401, "unauthorized", "show one"), ServerError, "set FSTUNE_TOKEN"),
        (problem(403, "forbidden", "it needs operate"), ServerError, "it needs operate"),
        (problem(409, "stale-plan", "it has changed"), StalePlanError, "it has changed"),
        (problem(502, "testbed", "fs1 is down"), TestbedError, "fs1 is down"),
        (problem(502, "transport", "fs1: no route"), TransportError, "fs1: no route"),
        (
            problem(502, "command-failed", "fs1: no fileserver"),
            CommandFailed,
            "^fs1: no fileserver",
        ),
        (problem(404, "not-found", "a\x1b[2Jb"), NotFoundError, r"a \[2Jb"),
        (httpx2.Response(404, text="<html>"), ServerError, "it answered 404 Not Found"),
        (httpx2.Response(200, text="<html>"), ServerError, "not understood"),
        (httpx2.Response(308, headers={"location": "https://else"}), ServerError, "https://else"),
    ],
)
def test_a_refusal_is_reported_once_in_the_servers_words(
    answer: httpx2.Response, kind: type[TunerError], message: str
) -> None:
    server = Server(answer)
    with client(server) as asking, pytest.raises(kind, match=message) as refused:
        asking.get("/v1/campaigns")
    assert "s3cret" not in str(refused.value)
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer s3cret"]


def test_every_error_has_the_exit_status_that_it_has_locally() -> None:
    tree = [each for each in vars(errors).values() if isinstance(each, type)]
    kinds = [each for each in tree if issubclass(each, TunerError) and each is not TunerError]
    assert len(kinds) > 9
    for kind in kinds:
        with client(Server(problem(kind.http_status, kind.slug, "no"))) as asking:
            with pytest.raises(kind) as refused:
                asking.post("/v1/campaigns/a/plans")
            assert refused.value.exit_code == kind.exit_code


def test_a_database_that_is_away_is_waited_for() -> None:
    away = problem(503, "store", "no connection")
    server = Server(away, away, httpx2.Response(200, json=[]), *[away] * 4)
    with client(server) as asking:
        assert asking.get("/v1/campaigns") == []
        with pytest.raises(StoreError, match="no connection"):
            asking.get("/v1/campaigns")
    assert server.answers == []


@pytest.mark.parametrize("server", ["https://example.org/fstune", "https://example.org/a/b/"])
def test_every_request_goes_below_the_path_of_the_server(server: str) -> None:
    page = {"items": [1], "next": None}
    stream = httpx2.Response(200, headers={"content-type": "text/event-stream"})
    there = Server(
        httpx2.Response(200, json={}),
        httpx2.Response(200, json=page),
        httpx2.Response(202, json={}),
        httpx2.Response(202, json={}),
        httpx2.Response(200, content=b"all"),
        stream,
    )
    with Client(address_of(server, ClientSettings()), transport=there) as asking:
        asking.get("/v1/status")
        assert list(asking.pages("/v1/campaigns", {"page": "x"})) == [1]
        asking.post(campaign_path("last", "pause"))
        asking.create("/v1/campaigns", "{}", "key")
        asking.download(campaign_path("last", "export"), io.BytesIO())
        with asking.stream(campaign_path("last", "events", "stream"), 0) as events:
            assert list(events) == []
    below = server.rstrip("/")
    assert [str(request.url) for request in there.requests] == [
        f"{below}/v1/status",
        f"{below}/v1/campaigns?limit=1000&page=x",
        f"{below}/v1/campaigns/last/pause",
        f"{below}/v1/campaigns",
        f"{below}/v1/campaigns/last/export",
        f"{below}/v1/campaigns/last/events/stream",
    ]


def test_safe_requests_are_retried() -> None:
    server = Server(
        httpx2.ConnectError("refused"),
        problem(429, "too-many", "later", **{"Retry-After": "7"}),
        httpx2.Response(200, json={"id": "a"}),
    )
    waits: list[float] = []
    with client(server, waits) as asking:
        assert asking.create("/v1/campaigns", "{}", "one") == {"id": "a"}
    assert waits == [0.5, 7.0]
    assert {request.headers["idempotency-key"] for request in server.requests} == {"one"}
    assert len(server.requests) == 3


def test_retries_are_limited_and_steering_is_not_retried() -> None:
    server = Server(*[httpx2.ReadTimeout("slow")] * 5)
    with client(server) as asking:
        with pytest.raises(Unreachable, match="the connection broke: slow"):
            asking.get("/v1/campaigns")
        assert len(server.requests) == 4
        with pytest.raises(Unreachable, match="the connection broke: slow"):
            asking.post("/v1/campaigns/a/pause")
    assert len(server.requests) == 5


def test_a_request_that_may_have_started_a_campaign_is_sent_for_ten_minutes() -> None:
    absence = [httpx2.ConnectError("refused")] * 20
    server = Server(httpx2.ReadError("reset"), *absence, httpx2.Response(202, json={"id": "a"}))
    lost: list[str] = []
    with client(server) as asking:
        assert asking.create("/v1/campaigns", "{}", "one", lost.append) == {"id": "a"}
    assert len(lost) == 1
    assert "the connection broke: reset" in lost[0]
    assert {request.headers["idempotency-key"] for request in server.requests} == {"one"}

    address, now = Address("https://tuning.example.org", False, ""), [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    server = Server(httpx2.ReadError("reset"), *[httpx2.ConnectError("refused")] * 100)
    again = Client(address, pause=pause, clock=lambda: now[0], transport=server)
    look = "may have been started: look with 'fstune list --server https://tuning.example.org'"
    with again, pytest.raises(ServerError, match=look):
        again.create("/v1/campaigns", "{}", "one")
    assert now[0] >= PATIENCE_S


def test_a_campaign_is_created_once_the_database_of_the_server_is_back() -> None:
    away = problem(503, "store", "no connection to the database")
    server = Server(*[away] * 30, httpx2.Response(202, json={"id": "a"}))
    lost: list[str] = []
    with client(server) as asking:
        assert asking.create("/v1/campaigns", "{}", "one", lost.append) == {"id": "a"}
    assert lost == ["no connection to the database"]
    assert {request.headers["idempotency-key"] for request in server.requests} == {"one"}


def test_a_server_that_cannot_be_reached_is_reported_soon() -> None:
    server = Server(*[httpx2.ConnectError("refused")] * 4)
    with client(server) as asking, pytest.raises(Unreachable, match="is it running"):
        asking.create("/v1/campaigns", "{}", "one")
    assert server.answers == []


def test_steering_whose_answer_was_lost_may_have_been_done() -> None:
    server = Server(httpx2.ReadError("reset"), httpx2.ConnectError("refused"))
    with client(server) as asking:
        with pytest.raises(ServerError, match="It may have been done: look with"):
            Campaigns(asking).steer("a", Wish.PAUSE)
        with pytest.raises(Unreachable, match="is it running") as refused:
            Campaigns(asking).resume("a", override_pilot=False)
    assert "may have been" not in str(refused.value)
    assert len(server.requests) == 2


def test_pages_follow_each_other() -> None:
    server = Server(
        httpx2.Response(200, json={"items": [1, 2], "next": "w"}),
        httpx2.Response(200, json={"items": [3], "next": None}),
    )
    with client(server) as asking:
        assert list(asking.pages("/v1/campaigns")) == [1, 2, 3]
    assert [request.url.params.get("page") for request in server.requests] == [None, "w"]


@pytest.mark.parametrize("reference", ["", " ", "..", "a/b", "a?b", "a%b", "a\nb", "x" * 90])
def test_an_impossible_reference_is_not_requested(reference: str) -> None:
    with pytest.raises(NotFoundError) as refusal:
        campaign_path(reference)
    # The words of the local command.
    assert str(refusal.value) == f"there is no campaign {reference!r}; see 'fstune list'"


@pytest.mark.parametrize("reference", ["my campaign", "a_b", "v1.2", "Prüfung", "..a"])
def test_a_campaign_is_requested_by_its_name(reference: str) -> None:
    server = Server(httpx2.Response(200, json={}))
    with client(server) as asking:
        asking.get(campaign_path(reference, "trials"))
    assert server.requests[0].url.path == f"/v1/campaigns/{reference}/trials"


class Cut(httpx2.SyncByteStream):
    """A stream that ends or breaks after some events."""

    def __init__(self, numbers: Sequence[int], end: bytes | Exception) -> None:
        self.numbers = numbers
        self.end = end

    def __iter__(self) -> Iterator[bytes]:
        for number in self.numbers:
            event: dict[str, Any] = {
                "number": number,
                "at": "2026-01-01T00:00:00Z",
                "kind": "news",
                "message": f"event {number}",
                "data": {},
                "of a newer server": True,
            }
            yield f"id: {number}\nevent: campaign\ndata: {json.dumps(event)}\n\n".encode()
        if isinstance(self.end, Exception):
            raise self.end
        yield self.end


def stream(*numbers: int, end: bytes | Exception) -> httpx2.Response:
    kind = {"content-type": "text/event-stream; charset=utf-8"}
    return httpx2.Response(200, headers=kind, stream=Cut(numbers, end))


def test_a_stream_resumes_where_it_broke_and_repeats_nothing() -> None:
    server = Server(
        stream(1, 2, end=httpx2.ReadError("reset")),
        httpx2.ConnectError("refused"),
        problem(503, "too-many", "too many streams"),
        problem(503, "store", "no connection"),
        # Half an event, then nothing: that event was not delivered.
        stream(3, end=b"id: 4\ndata: {"),
        stream(3, 4, end=b"event: over\ndata: {}\n\n"),
    )
    lost: list[str] = []
    with client(server) as asking:
        numbers = [e.number for e in follow(asking, "a", 0, lost=lost.append, pause=lambda _: None)]
    assert numbers == [1, 2, 3, 4]
    places = [request.headers["last-event-id"] for request in server.requests]
    assert places == ["0", "2", "2", "2", "2", "3"]
    assert [bool(why) for why in lost] == [True, False, True, False]


def test_a_stream_reports_that_a_process_is_missing() -> None:
    messages = [
        b'event: presence\ndata: {"reason": "its process\\u001b has died", "queued": true}\n\n',
        b'event: presence\ndata: {"reason": "it has died", "queued": false, "verifies": true}\n\n',
        b'event: presence\ndata: {"reason": "", "queued": false}\n\n',
        b"event: over\ndata: {}\n\n",
    ]
    missed: list[Absence | None] = []
    with client(Server(stream(1, end=b"".join(messages)))) as asking:
        numbers = [event.number for event in follow(asking, "a", 0, missed=missed.append)]
    assert numbers == [1]
    assert missed == [
        Absence("a", "its process  has died", True),
        Absence("a", "it has died", False, verifies=True),
        None,
    ]


class Pieces(httpx2.SyncByteStream):
    """The beginning of a file, and then its end or an error."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


def test_an_interrupted_download_is_restarted_from_the_beginning(tmp_path: Path) -> None:
    server = Server(
        httpx2.Response(200, stream=Pieces(b"much longer than", httpx2.ReadError("reset"))),
        problem(503, "too-many", "too many campaigns are being exported"),
        httpx2.Response(200, stream=Pieces(b"the ", b"whole")),
    )
    with client(server) as asking, (tmp_path / "file").open("w+b") as output:
        assert asking.download("/v1/campaigns/a/export", output) == 9
    assert (tmp_path / "file").read_bytes() == b"the whole"
    server = Server(problem(404, "not-found", "there is no campaign a"))
    with client(server) as asking, (tmp_path / "file").open("w+b") as output:
        with pytest.raises(NotFoundError, match="no campaign a"):
            asking.download("/v1/campaigns/a/export", output)
        assert output.tell() == 0


def test_a_server_that_stays_away_is_given_up() -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    server = Server(*[httpx2.ConnectError("refused")] * 200)
    with client(server) as asking, pytest.raises(ServerError, match="given up after 10 min"):
        list(follow(asking, "a", 0, pause=wait, clock=lambda: now[0]))
    assert 600.0 < now[0] < 620.0
    assert len(server.requests) < 100


def test_a_refusal_ends_a_stream_at_once() -> None:
    server = Server(problem(404, "not-found", "there is no campaign a"))
    with client(server) as asking, pytest.raises(NotFoundError, match="no campaign a"):
        list(follow(asking, "a", 0))


@pytest.mark.parametrize(
    "proxy", ["socks5://keeper:unheard-of@proxy", "gopher://proxy", "http://:x"]
)
def test_a_proxy_that_cannot_be_used_is_a_mistake_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(SpecError, match="ALL_PROXY") as refused:
        Client(Address("https://tuning.example.org", False, "s3cret"))
    assert "unheard-of" not in str(refused.value)
    Client(Address("http://127.0.0.1:8710", True, "s3cret")).__exit__()
