"""Transactions of a PostgreSQL server that are in conflict with each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Row

from tests.postgresql import Server
from tests.unit.store import records, test_leases
from tests.unit.store.conftest import Place
from tests.unit.store.test_applications import application_of
from tuner.errors import InUseError, StoreError
from tuner.model import Holder
from tuner.states import ApplicationState
from tuner.store import Store, database, queries
from tuner.store.applications import Applications
from tuner.store.postgresql import PostgreSQL

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

LIMIT_S = 3600.0


@pytest.fixture
def place(postgresql: Server, name: str, state_directory: Path) -> Place:
    return Place(state_directory, postgresql.url(name))


def test_a_transaction_that_ends_a_deadlock_is_run_again(place: Place) -> None:
    both = threading.Barrier(2)

    def change(first: str, second: str) -> int:
        attempts = 0

        def lock_both(connection: Connection) -> int:
            nonlocal attempts
            attempts += 1
            connection.exec_driver_sql("SET LOCAL deadlock_timeout = '20ms'")
            queries.campaign_row(connection, first, lock=True)
            if attempts == 1:
                both.wait(timeout=60.0)
            queries.campaign_row(connection, second, lock=True)
            queries.add_event(connection, first, records.event())
            return attempts

        with closing(PostgreSQL(str(place.address))) as mine:
            return mine.write(lock_both)

    with place.open() as store, ThreadPoolExecutor() as threads:
        one, two = (records.new_campaign(store, trials=0) for _ in range(2))
        results = [threads.submit(change, *each) for each in ((one, two), (two, one))]
        assert max(each.result() for each in results) > 1
        assert [len(store.events(each)) for each in (one, two)] == [2, 2]


def test_conflicts_do_not_repeat_a_transaction_for_ever(store: Store) -> None:
    attempts = []

    def conflict(connection: Connection) -> None:
        attempts.append(1)
        connection.exec_driver_sql("DO $$BEGIN RAISE SQLSTATE '40001'; END$$")

    with pytest.raises(StoreError, match="conflicting transactions; try again"):
        store._database.write(conflict)
    assert len(attempts) == 1 + database._MOST_CONFLICTS


def test_two_starts_after_a_crash_lock_in_one_order(
    store: Store, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One resumes the campaign whose block the other one is to void."""
    monkeypatch.setattr(database, "_MOST_CONFLICTS", 0)
    dead, other = test_leases.running(store), test_leases.running(store)
    old = test_leases.take(store, dead)
    store.begin_block(dead, test_leases.block_on(old), records.event(), old)
    inside, go_on = threading.Event(), threading.Event()

    def is_gone(holder: Holder) -> bool:
        inside.set()
        return go_on.wait(timeout=60.0)

    def start(campaign: str, has_ended: Callable[[Holder], bool]) -> None:
        with place.open() as mine:
            names, cut_off = [old.testbed], records.event("block-void")
            mine.take_testbeds(campaign, names, test_leases.THERE, LIMIT_S, has_ended, cut_off)

    with ThreadPoolExecutor() as threads, place.raw() as connection:
        resumed = threads.submit(start, dead, is_gone)
        assert inside.wait(timeout=60.0)
        refused = threads.submit(start, other, lambda holder: holder == test_leases.HERE)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while connection.exec_driver_sql(waiting).scalar_one() == 0 and not refused.done():
            time.sleep(0.01)
        go_on.set()
        resumed.result()
        with pytest.raises(InUseError, match=f"in use by campaign {dead}"):
            refused.result()


def test_a_request_made_just_before_a_change_of_state_is_kept(
    store: Store, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made after the change has begun, and before that has locked the campaign."""
    campaign = records.new_campaign(store, trials=0)
    committing = replace(application_of(campaign), state=ApplicationState.COMMITTING)
    Applications(store).add(committing, records.event("planned"))
    lock = queries.campaign_row

    def ask_first(connection: Connection, of: str, **options: bool) -> Row[Any]:
        monkeypatch.undo()
        with place.open() as other:
            event = records.event("rollback-requested")
            Applications(other).ask(committing.id, committing.state, "bob", event)
        return lock(connection, of, **options)

    monkeypatch.setattr(queries, "campaign_row", ask_first)
    applied = Applications(store).move(
        committing.id, ApplicationState.APPLIED, "", "alice", records.event(), keep_request=True
    )
    assert applied.asked_by == "bob"
