"""A stop signal in the middle of a transaction: it completes, and no lock is left behind."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from sqlalchemy import Connection

from tests.unit.store import records
from tuner.interruption import uninterrupted
from tuner.stop_signals import stop_signals
from tuner.store import Store, queries
from tuner.store.database import Database


@pytest.fixture
def database(store: Store) -> Database:
    return store._database


def test_a_transaction_is_ended_before_the_process_is_interrupted(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.store.database.BUSY_TIMEOUT_S", 1.0)
    campaign = records.new_campaign(store, trials=0)
    done: list[str] = []

    def work(connection: Connection) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        queries.campaign_row(connection, campaign, lock=True)
        queries.add_event(connection, campaign, records.event("whole"))
        done.append("whole")

    with stop_signals(), pytest.raises(KeyboardInterrupt, match="SIGTERM") as caught:
        database.write(work)
    assert done == ["whole"]
    # With the traceback still alive, as when a handler of the exception cleans up.
    assert caught.value.__traceback__ is not None
    assert store.events(campaign)[-1].kind == "whole"
    store.add_event(campaign, records.event("after"))


def test_a_transaction_that_fails_is_still_rolled_back(store: Store, database: Database) -> None:
    campaign = records.new_campaign(store, trials=0)
    before = store.events(campaign)

    def work(connection: Connection) -> None:
        queries.add_event(connection, campaign, records.event())
        os.kill(os.getpid(), signal.SIGINT)
        raise ZeroDivisionError

    with stop_signals(), pytest.raises(KeyboardInterrupt) as caught:
        database.write(work)
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert store.events(campaign) == before


def test_only_the_main_thread_delays_interrupts() -> None:
    inside, over = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with uninterrupted():
            inside.set()
            over.wait(60.0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert inside.wait(60.0)
    try:
        with stop_signals(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        over.set()
        thread.join()


def test_the_end_of_an_inner_section_does_not_end_the_outer_one() -> None:
    reached = []

    def nested() -> None:
        with uninterrupted():
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end")

    with stop_signals(), pytest.raises(KeyboardInterrupt):
        nested()
    assert reached == ["the end"]
