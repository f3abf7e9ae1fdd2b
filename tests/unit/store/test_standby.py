"""A PostgreSQL server that becomes a standby, and the primary again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgresql import Server
from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.errors import StoreError
from tuner.store import Store, database

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def place(postgresql: Server, name: str, state_directory: Path) -> Place:
    return Place(state_directory, postgresql.url(name))


@pytest.fixture
def standby(postgresql: Server) -> Iterator[Server]:
    """Return the server, which ends as the primary that it was."""
    yield postgresql
    postgresql.promote()


def session(store: Store) -> object:
    """Return the process of the server that answers."""
    return store._database.read(lambda c: c.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


def test_a_change_waits_until_the_standby_is_the_primary(
    standby: Server, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    campaign = records.new_campaign(store, trials=0)
    standby.become_standby()
    before = session(store)
    caplog.clear()
    logs = []

    def promote() -> None:
        while "can only be read; waiting up to" not in caplog.text:
            time.sleep(0.01)
        # That it answers does not mean that it can be changed.
        store.events(campaign)
        logs.append(caplog.text)
        standby.promote()

    promoting = threading.Thread(target=promote, daemon=True)
    promoting.start()
    assert store.add_event(campaign, records.event()).number == 2
    promoting.join()
    assert "responds again" not in logs[0]
    assert caplog.text.count("responds again") == 1
    # The address may lead to another server by now.
    assert session(store) != before


def test_waiting_for_the_primary_has_a_limit(
    standby: Server, store: Store, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = records.new_campaign(store, trials=0)
    standby.become_standby()
    monkeypatch.setattr(database, "PATIENCE_S", 0.3)
    for _ in range(2):
        with pytest.raises(StoreError, match="can only be read, as a replica can; use the primary"):
            store.add_event(campaign, records.event())
        assert len(store.events(campaign)) == 1
    with place.open() as fresh:
        assert len(fresh.events(campaign)) == 1
        monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
        with pytest.raises(StoreError, match="can only be read"):
            fresh.add_event(campaign, records.event())
