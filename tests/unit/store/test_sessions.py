"""The settings of sessions of a PostgreSQL server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

from tests.postgresql import Server
from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.store import Store, queries
from tuner.store.postgresql import _KEEPALIVES, PostgreSQL

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def place(postgresql: Server, name: str, state_directory: Path) -> Place:
    return Place(state_directory, postgresql.url(name))


def test_a_process_that_stands_still_loses_its_locks(
    store: Store, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that was stopped, or whose machine is gone. If it continues, it starts anew."""
    campaign = records.new_campaign(store, trials=0)
    monkeypatch.setattr("tuner.store.postgresql._IDLE_S", 1.0)
    numbers: list[int] = []

    def change(connection: Connection) -> None:
        queries.campaign_row(connection, campaign, lock=True)
        if not numbers:
            numbers.append(store.add_event(campaign, records.event()).number)
        numbers.append(queries.add_event(connection, campaign, records.event()).number)

    with place.open() as slow:
        slow._database.write(change)
    assert (numbers[0], numbers[-1]) == (2, 3)
    assert [event.number for event in store.events(campaign)] == [1, 2, 3]


def test_the_tables_are_changed_however_long_it_takes(place: Place) -> None:
    with closing(PostgreSQL(str(place.address))) as mine, mine.changing_tables() as connection:
        show = "SHOW idle_in_transaction_session_timeout"
        assert connection.exec_driver_sql(show).scalar_one() == "0"


def test_the_server_notices_that_a_machine_is_gone(store: Store) -> None:
    """It is connected by a socket of its own machine, for which the settings have no effect."""
    query = "SELECT name, reset_val FROM pg_settings WHERE name LIKE 'tcp_%%'"
    settings = store._database.read(lambda c: c.exec_driver_sql(query).all())
    assert {name: int(value) for name, value in settings} == _KEEPALIVES


def test_options_of_the_address_do_not_replace_others(place: Place) -> None:
    theirs = "-c%20work_mem%3D5MB%20-c%20lock_timeout%3D7s"
    shows = [
        f"SHOW {name}" for name in ("work_mem", "lock_timeout", "timezone", "application_name")
    ]
    with closing(PostgreSQL(f"{place.address}&options={theirs}&application_name=a%20b")) as mine:
        for_us = mine.read(lambda c: [c.exec_driver_sql(show).scalar() for show in shows])
        address, arguments = mine.driver_arguments()
    others: Any = arguments
    with psycopg.connect(address, **others) as connection:
        for_workers = [connection.execute(show).fetchone() for show in shows]
    assert for_us == ["5MB", "7s", "UTC", "a b"]
    assert for_workers == [(value,) for value in for_us]


def test_options_of_the_environment_do_not_replace_others_either(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=5MB -c lock_timeout=7s")
    monkeypatch.setenv("PGAPPNAME", "tuning")
    names = ("work_mem", "lock_timeout", "timezone", "application_name")

    def settings(address: str) -> list[object]:
        with closing(PostgreSQL(address)) as mine:
            return mine.read(lambda c: [c.exec_driver_sql(f"SHOW {n}").scalar() for n in names])

    assert settings(str(place.address)) == ["5MB", "7s", "UTC", "tuning"]
    address = f"{place.address}&options=-c%20work_mem%3D6MB"
    limit, theirs = settings(f"{address}&application_name=mine")[::3], settings(address)[1]
    assert limit == ["6MB", "mine"]
    assert theirs != "7s"
