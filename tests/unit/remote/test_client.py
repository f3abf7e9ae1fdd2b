"""What becomes of the answers of a server: sent again, refused in its words, told as an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tuner.errors import ConflictError, NotFoundError, ServerError, SpecError, TunerError
from tuner.records.status import Absence
from tuner.remote.address import Address
from tuner.remote.client import Client, Lost, campaign_path
from tuner.remote.stream import follow

Answer = httpx2.Response | Exception


class Server(httpx2.BaseTransport):
    """Answers in turn what it was told to, and keeps what it was asked."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        told = answer() if callable(answer) else answer
        if isinstance(told, Exception):
            raise told
        return told


def problem(status: int, kind: str, detail: str, **headers: str) -> httpx2.Response:
    body = {"type": f"urn:fstune:{kind}", "title": "", "status": status, "detail": detail}
    return httpx2.Response(status, json=body, headers=headers)


def client(server: Server, waits: list[float] | None = None) -> Client:
    address = Address("https://tuning.example.org", False, "s3cret")
    pause = (lambda _: None) if waits is None else waits.append
    return Client(address, pause=pause, transport=server)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (problem(404, "not-found", "there is no campaign 7"), NotFoundError, "no campaign 7"),
        (problem(409, "conflict", "it does not run"), ConflictError, "it does not run"),
        (problem(422, "bad-input", "workload: none"), SpecError, "workload: none"),
        (problem(401, "unauthorized", "show one"), ServerError, "set FSTUNE_TOKEN"),
        (problem(403, "forbidden", "it needs operate"), ServerError, "it needs operate"),
        (problem(404, "not-found", "a\x1b[2Jb"), NotFoundError, r"a \[2Jb"),
        (httpx2.Response(404, text="<html>"), ServerError, "it answers 404 Not Found"),
        (httpx2.Response(200, text="<html>"), ServerError, "not understood"),
        (httpx2.Response(308, headers={"location": "https://else"}), ServerError, "https://else"),
    ],
)
def test_a_refusal_is_told_once_in_the_servers_words(
    answer: httpx2.Response, kind: type[TunerError], said: str
) -> None:
    server = Server(answer)
    with client(server) as asking, pytest.raises(kind, match=said) as refused:
        asking.get("/v1/campaigns")
    assert "s3cret" not in str(refused.value)
    assert [request.headers["authorization"] for request in server.asked] == ["Bearer s3cret"]


def test_what_may_be_asked_again_is_asked_again() -> None:
    server = Server(
        httpx2.ConnectError("refused"),
        problem(429, "too-many", "later", **{"Retry-After": "7"}),
        httpx2.Response(200, json={"id": "a"}),
    )
    waits: list[float] = []
    with client(server, waits) as asking:
        assert asking.create("/v1/campaigns", "{}", "one") == {"id": "a"}
    assert waits == [0.5, 7.0]
    assert {request.headers["idempotency-key"] for request in server.asked} == {"one"}
    assert len(server.asked) == 3


def test_it_is_not_asked_for_ever_and_steering_is_not_asked_twice() -> None:
    server = Server(*[httpx2.ReadTimeout("slow")] * 5)
    with client(server) as asking:
        with pytest.raises(Lost, match="the connection broke: slow"):
            asking.get("/v1/campaigns")
        assert len(server.asked) == 4
        with pytest.raises(Lost, match="the connection broke: slow"):
            asking.post("/v1/campaigns/a/pause")
    assert len(server.asked) == 5


def test_pages_follow_each_other() -> None:
    server = Server(
        httpx2.Response(200, json={"items": [1, 2], "next": "w"}),
        httpx2.Response(200, json={"items": [3], "next": None}),
    )
    with client(server) as asking:
        assert list(asking.pages("/v1/campaigns")) == [1, 2, 3]
    assert [request.url.params.get("page") for request in server.asked] == [None, "w"]


@pytest.mark.parametrize("reference", ["", "..", "a/b", "a?b", "a\nb", "-x", "é", "x" * 90])
def test_what_no_campaign_is_called_is_not_asked_for(reference: str) -> None:
    with pytest.raises(NotFoundError):
        campaign_path(reference)


class Cut(httpx2.SyncByteStream):
    """A stream that ends, or breaks, after some events."""

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


def test_a_stream_goes_on_where_it_broke_and_tells_nothing_twice() -> None:
    server = Server(
        stream(1, 2, end=httpx2.ReadError("reset")),
        httpx2.ConnectError("refused"),
        problem(503, "too-many", "too many streams"),
        # The half of an event, then nothing: it was not told.
        stream(3, end=b"id: 4\ndata: {"),
        stream(3, 4, end=b"event: over\ndata: {}\n\n"),
    )
    lost: list[str] = []
    with client(server) as asking:
        told = [e.number for e in follow(asking, "a", 0, lost=lost.append, pause=lambda _: None)]
    assert told == [1, 2, 3, 4]
    places = [request.headers["last-event-id"] for request in server.asked]
    assert places == ["0", "2", "2", "2", "3"]
    assert [bool(why) for why in lost] == [True, False, True, False]


def test_a_stream_tells_that_nobody_is_heard_from() -> None:
    said = [
        b'event: presence\ndata: {"said": "its process\\u001b has died", "queued": true}\n\n',
        b'event: presence\ndata: {"said": "", "queued": false}\n\n',
        b"event: over\ndata: {}\n\n",
    ]
    missed: list[Absence | None] = []
    with client(Server(stream(1, end=b"".join(said)))) as asking:
        told = [event.number for event in follow(asking, "a", 0, missed=missed.append)]
    assert told == [1]
    assert missed == [Absence("a", "its process  has died", True), None]


class Pieces(httpx2.SyncByteStream):
    """The beginning of a file, and then what becomes of it."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


def test_a_file_that_breaks_off_is_fetched_again_from_its_beginning(tmp_path: Path) -> None:
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
    assert len(server.asked) < 100


def test_a_refusal_ends_a_stream_at_once() -> None:
    server = Server(problem(404, "not-found", "there is no campaign a"))
    with client(server) as asking, pytest.raises(NotFoundError, match="no campaign a"):
        list(follow(asking, "a", 0))
