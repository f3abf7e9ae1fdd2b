"""Commands at a server, also at one of an earlier release."""

from __future__ import annotations

import json
from contextlib import nullcontext

import httpx2
import pytest

from tests.unit.remote.test_client import Server, client
from tests.unit.report.samples import AT, RECOMMENDED, campaign
from tuner.cli import remote
from tuner.errors import SpecError
from tuner.model import Wish
from tuner.remote.campaigns import Campaigns
from tuner.report.recommend import recommendation_document

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


def test_last_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(httpx2.Response(200, json=RECORD))
    monkeypatch.setattr(remote, "_campaigns", lambda _: nullcontext(Campaigns(client(server))))
    with pytest.raises(SpecError, match=r"it would be 7f3a2b .* fstune cancel 7f3a2b$"):
        remote.steer("https://tuning.example.org", "last", Wish.CANCEL)


def test_what_is_left_to_do_after_steering_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "cancel requested from here; its testbed has not been put back"
    record = RECORD | {"state": "cancelled", "reason": reason}
    server = Server(httpx2.Response(200, json=record))
    monkeypatch.setattr(remote, "_campaigns", lambda _: nullcontext(Campaigns(client(server))))
    remote.steer("https://tuning.example.org", "7f3a2b", Wish.CANCEL)
    assert capsys.readouterr().out == f"campaign 7f3a2b is cancelled: {reason}\n"
