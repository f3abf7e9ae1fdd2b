"""Lists with many certificates take as many transactions as lists with one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from api import pages
from api.app import create_app
from tests.counting import calls_of
from tests.unit.api.conftest import fstune
from tests.unit.store import records
from tests.unit.store.test_lists_of_certificates import OTHER, certified, ran
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.store.database import Database

COUNT = 12


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a state directory with certificates that have all expired."""
    with Store.open(tmp_path) as store:
        for minute in range(COUNT):
            certified(store, "a", minute)
        ran(store, "a", records.NOON + timedelta(hours=1), OTHER)
    return tmp_path


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns the number of transactions since its last call."""
    return calls_of(monkeypatch, Database, "_persistently")


def test_the_service_lists_them(
    directory: Path, transactions: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(directory, settings), base_url="http://localhost") as client:
        counts: dict[str, set[int]] = {"list": set(), "page": set(), "recommendations": set()}
        for most in (2, COUNT + 1):
            transactions()
            items = client.get(f"/v1/campaigns?limit={most}").json()["items"]
            counts["list"].add(transactions())
            assert [bool(item["expired"]) for item in items] == [False, *[True] * (most - 1)]
            monkeypatch.setattr(pages, "_CAMPAIGNS_SHOWN", most)
            text = client.get("/").text
            counts["page"].add(transactions())
            assert text.count("expired") >= most - 1
            answer = client.get(f"/v1/recommendations?limit={most}").json()
            counts["recommendations"].add(transactions())
            assert answer
    assert {what: len(of) for what, of in counts.items()} == dict.fromkeys(counts, 1)
    assert max(map(max, counts.values())) < COUNT


def test_the_command_line_lists_them(directory: Path, transactions: Callable[[], int]) -> None:
    counts = []
    for most in (2, COUNT + 1):
        transactions()
        output = fstune(directory, "list", "--limit", str(most), "--json")
        counts.append(transactions())
        assert output.count('"expired: ') >= most - 1
    assert counts[0] == counts[1]
