"""Commands at a server, also at one of an earlier release."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest

from tests.unit.remote.test_client import Server, client, problem, stream
from tests.unit.report.samples import AT, RECOMMENDED, campaign
from tuner.cli import remote
from tuner.cli import watching as cli_watching
from tuner.errors import SpecError
from tuner.model import Wish
from tuner.remote.campaigns import Campaigns
from tuner.remote.client import Unreachable
from tuner.report.recommendation_document import recommendation_document
from tuner.states import CampaignState

SENTENCES = ["Calls: 200 with the baseline, 100 with it."]
RECORD = {
    "id": "7f3a2b",
    "name": "mixed",
    "state": "finished",
    "reason": "",
    "created": AT.isoformat(),
    "updated": AT.isoformat(),
    "seed": 1,
    "answer": "recommended",
    "trial": RECOMMENDED.trial,
    "spaces": {},
}


@pytest.mark.parametrize("together", [True, False])
def test_the_explanation_is_in_every_form_of_an_answer(
    together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier servers send it separately from the recommendation."""
    document = recommendation_document(campaign(), RECOMMENDED, why=SENTENCES if together else None)
    answers = [RECORD, json.loads(document.json_text())]
    if not together:
        answers.append({"trial": RECOMMENDED.trial, "sentences": SENTENCES})
    server = Server(*(httpx2.Response(200, json=one) for one in answers))
    monkeypatch.setattr(remote, "_campaigns", lambda _: nullcontext(Campaigns(client(server))))
    _, complete, _, sentences = remote.recommendation("https://tuning.example.org", "last")
    assert list(sentences) == SENTENCES
    assert json.loads(complete.json_text())["why"] == SENTENCES
    assert server.answers == []


def row(number: int, state: str, kind: str = "search") -> dict[str, Any]:
    return {
        "number": number,
        "kind": kind,
        "round": 1,
        "order": [0, 1],
        "state": state,
        "duration_s": 1.0,
        "reason": "",
        "testbed": "here",
        "batch": 0,
        "slot": 0,
        "measured": [0, 1] if state == "complete" else [0],
    }


def rows(*blocks: dict[str, Any]) -> httpx2.Response:
    return httpx2.Response(200, json={"items": list(blocks), "next": None})


def watching(server: Server) -> remote._ServerSource:
    return remote._ServerSource(Campaigns(client(server)), "7f3a2b")


def test_a_second_look_asks_only_for_blocks_that_may_have_changed() -> None:
    first = [row(1, "complete", "pilot"), row(2, "complete"), row(3, "void"), row(4, "running")]
    second = [row(4, "complete"), row(5, "running"), row(6, "complete")]
    third = [row(n, "complete") for n in (5, 6)]
    server = Server(*(rows(*each) for each in (first, second, third, [])))
    source = watching(server)
    looks = [source.blocks() for _ in range(4)]
    assert [r.url.params.get("after") for r in server.requests] == [None, "3", "4", "6"]
    numbers = [(look.last.number, look.complete, look.measurements) for look in looks if look]
    assert numbers == [(4, 1, 6), (6, 3, 10), (6, 4, 11), (6, 4, 11)]


def test_a_server_of_an_earlier_release_sends_all_blocks() -> None:
    blocks = [row(1, "complete"), row(2, "complete")]
    refused = problem(422, "bad-input", "query.after: unknown parameter")
    server = Server(rows(*blocks), refused, rows(*blocks, row(3, "running")))
    source = watching(server)
    assert source.blocks() is not None
    look = source.blocks()
    assert look is not None
    assert (look.last.number, look.complete, look.measurements) == (3, 2, 5)


def events(*kinds: str, first: int = 1) -> httpx2.Response:
    return rows(
        *(
            {"number": n, "at": AT.isoformat(), "kind": kind, "message": "", "data": {}}
            for n, kind in enumerate(kinds, first)
        )
    )


def test_a_live_view_asks_for_the_newest_events_and_of_all_others_for_those_that_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli_watching, "_AT_A_TIME", 3)
    newest = events("block-started", "measured", "restored", first=7)
    lasting = rows(*events("started").json()["items"], *newest.json()["items"][2:])
    server = Server(newest, lasting)
    assert [event.number for event in watching(server).earlier(0)] == [1, 7, 8, 9]
    queries = [dict(request.url.params) for request in server.requests]
    assert (queries[0]["newest"], queries[0]["after"]) == ("3", "0")
    assert "trial-promoted" in queries[1]["kinds"].split(",")
    # Of a short campaign, the newest are all. A server that dies meanwhile is waited for.
    lost: list[str] = []
    server = Server(*[httpx2.ConnectError("refused")] * 9, events("started", "measured"))
    source = remote._ServerSource(Campaigns(client(server)), "7f3a2b", lost.append)
    assert [event.number for event in source.earlier(0)] == [1, 2]
    assert [bool(why) for why in lost] == [True, False]


def test_a_server_of_an_earlier_release_sends_all_events_as_they_are_followed() -> None:
    refused = problem(422, "bad-input", "query.newest: unknown parameter; known: limit, page")
    assert watching(Server(refused)).earlier(0) == []


def test_before_the_first_block_there_is_nothing_to_show() -> None:
    assert watching(Server(rows())).blocks() is None


def test_a_restart_that_ends_a_run_does_not_end_the_watching() -> None:
    """A service that is restarted pauses its runs first: the stream ends with that event."""
    away = [httpx2.ConnectError("refused")] * 9
    campaign = httpx2.Response(200, json=RECORD)
    server = Server(*away[:4], campaign, stream(1, end=b""), *away, campaign)
    source = watching(server)
    with pytest.raises(Unreachable):
        source.campaign()  # nothing is followed yet: no server is there
    assert source.campaign().id == "7f3a2b"
    lost: list[str] = []
    assert next(source.follow(0, lost.append, lambda _: None)).number == 1
    assert source.campaign().state is CampaignState.FINISHED
    assert [bool(why) for why in lost] == [True, False]
    assert server.answers == []


def test_a_server_that_dies_when_it_has_begun_a_campaign_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = [httpx2.ConnectError("refused.")] * 9
    server = Server(*away, httpx2.Response(200, json=RECORD))
    campaigns = Campaigns(client(server))
    ids: list[str] = []
    monkeypatch.setattr(
        remote, "watched", lambda source, *_, **__: ids.append(source.campaign().id)
    )
    remote._watch_new(campaigns, campaign(), None, quiet=False)
    assert ids == ["7f3a2b"]
    words = capsys.readouterr().err
    assert "no connection (refused); is it running?; trying again" in words
    assert "connected again" in words


def test_last_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(httpx2.Response(200, json=RECORD))
    monkeypatch.setattr(remote, "_campaigns", lambda _: nullcontext(Campaigns(client(server))))
    with pytest.raises(SpecError, match=r"it would be 7f3a2b .* fstune cancel 7f3a2b$"):
        remote.steer("https://tuning.example.org", "last", Wish.CANCEL)


def test_what_is_left_to_do_after_steering_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "cancel requested from here; its testbed has not been restored"
    record = RECORD | {"state": "cancelled", "reason": reason}
    server = Server(httpx2.Response(200, json=record))
    monkeypatch.setattr(remote, "_campaigns", lambda _: nullcontext(Campaigns(client(server))))
    remote.steer("https://tuning.example.org", "7f3a2b", Wish.CANCEL)
    assert capsys.readouterr().out == f"campaign 7f3a2b is cancelled: {reason}\n"
