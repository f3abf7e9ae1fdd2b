"""What a worker does after the database was away: neither it nor another one is taken for dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgresql import Server
from tests.unit.store.conftest import Place
from tests.unit.work.stored_runs import kinds
from tests.unit.work.test_queue import LIMIT_S, Hand, put
from tuner.errors import StoreError
from tuner.report.log import LogForm
from tuner.store import Store
from tuner.store.queue import Queue
from tuner.work import jobs, worker
from tuner.work.metrics import WorkerMetrics
from tuner.work.worker import Orders, Worker

pytestmark = pytest.mark.postgres

OWN_LIMIT_S = 60.0
PAUSE_S = OWN_LIMIT_S / 6

Look = Callable[[float], list[str]]


@pytest.fixture
def place(state: Path, address: str) -> Place:
    return Place(state, address)


@pytest.fixture
def own(place: Place, queue: Queue) -> Hand:
    """Return the worker that looks, as the database sees it."""
    return Hand(place, queue, OWN_LIMIT_S)


@pytest.fixture
def look(
    store: Store,
    queue: Queue,
    state: Path,
    address: str,
    own: Hand,
    monkeypatch: pytest.MonkeyPatch,
) -> Look:
    """Return a function that lets the worker look after some seconds, and returns what it says."""
    now_s = [1000.0]
    monkeypatch.setattr(worker, "monotonic", lambda: now_s[0])
    messages: list[str] = []
    orders = Orders(state, address, ("simulated",), 1, OWN_LIMIT_S, LogForm.JSON)
    looking = Worker(
        store, queue, orders, WorkerMetrics(1), lambda level, kind, **_: messages.append(kind)
    )
    looking._id = own.id

    def look_after(pause_s: float) -> list[str]:
        now_s[0] += pause_s
        messages.clear()
        asyncio.run(looking._look())
        return list(messages)

    return look_after


def test_a_worker_gives_a_heartbeat_before_it_looks_for_dead_ones(
    store: Store, queue: Queue, own: Hand, look: Look
) -> None:
    campaign = put(store, queue)
    own.take()
    own.sql(
        "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '30 days' RETURNING id"
    )
    assert look(OWN_LIMIT_S) == []
    (registered,) = queue.workers()
    assert registered.beat_age_s < OWN_LIMIT_S
    assert "worker-lost" not in kinds(store, campaign)


def test_the_others_get_the_time_for_a_heartbeat_when_the_database_is_back(
    store: Store, queue: Queue, place: Place, own: Hand, look: Look
) -> None:
    campaign = put(store, queue)
    silent = Hand(place, queue)
    silent.take()
    for _ in range(7):
        assert look(PAUSE_S) == []
    # Away for two minutes, and not because the server was restarted.
    silent.fall_silent(LIMIT_S + 1)
    for pause_s in (120.0, *[PAUSE_S] * 5):
        assert look(pause_s) == []
    assert {one.id for one in queue.workers()} == {own.id, silent.id}
    assert look(PAUSE_S) == ["taken-over"]
    assert kinds(store, campaign).count("worker-lost") == 1
    assert [one.id for one in queue.workers()] == [own.id]


def test_a_worker_that_waited_for_the_database_while_it_took_over_takes_nothing(
    store: Store,
    queue: Queue,
    place: Place,
    own: Hand,
    look: Look,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(store, queue)
    silent = Hand(place, queue)
    silent.take()
    for _ in range(7):
        assert look(PAUSE_S) == []
    silent.fall_silent(LIMIT_S + 1)
    take_over = queue.take_over

    def wait_first(may: Callable[[], bool]) -> object:
        monkeypatch.setattr(worker, "monotonic", lambda: 1e6)
        return take_over(may)

    monkeypatch.setattr(queue, "take_over", wait_first)
    assert look(PAUSE_S) == []
    assert len(queue.workers()) == 2


def test_a_worker_that_is_no_longer_registered_ends(own: Hand, look: Look) -> None:
    own.sql(f"DELETE FROM procrastinate_workers WHERE id = {own.id} RETURNING id")
    assert look(PAUSE_S) == ["stopping"]


@pytest.mark.slow
def test_the_connections_of_the_queue_are_back_soon_after_the_server(
    queue: Queue,
    postgresql: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(jobs, "_POOL_PATIENCE_S", 0.5)
    monkeypatch.setattr(jobs, "_LONGEST_PAUSE_S", 0.5)
    caplog.set_level(logging.ERROR)

    async def ask() -> float:
        loop = asyncio.get_running_loop()
        app = jobs.app_of(queue, _nothing, _nothing, lambda: None)
        async with app.open_async():
            await app.connector.execute_query_one_async("SELECT 1 AS one")
            await asyncio.to_thread(postgresql.stop)
            try:
                asking = asyncio.create_task(
                    app.connector.execute_query_one_async("SELECT 1 AS one")
                )
                # Doubling intervals would be at 7 s, 15 s and so on.
                await asyncio.sleep(8.0)
            finally:
                await asyncio.to_thread(postgresql.start)
            since_s = loop.time()
            await asking
            return loop.time() - since_s

    assert asyncio.run(ask()) < 4.0


@pytest.mark.slow
def test_the_queue_waits_until_the_standby_is_the_primary(
    queue: Queue,
    postgresql: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that has been changed before: otherwise, its address is that of a standby."""
    monkeypatch.setattr(jobs, "_LONGEST_PAUSE_S", 0.1)
    process = "SELECT pg_backend_pid() AS process"

    async def register() -> tuple[int, ...]:
        app = jobs.app_of(queue, _nothing, _nothing, lambda: None)
        async with app.open_async():
            await asyncio.to_thread(postgresql.become_standby)
            with pytest.raises(StoreError, match="read-only"):
                await app.job_manager.register_worker()
            await asyncio.to_thread(postgresql.promote)
            first = await app.job_manager.register_worker()
            await asyncio.to_thread(postgresql.become_standby)
            before = await app.connector.execute_query_one_async(process)
            registering = asyncio.create_task(app.job_manager.register_worker())
            while "the queue can only be read; waiting" not in caplog.text:
                assert not registering.done()
                await asyncio.sleep(0.01)
            await asyncio.to_thread(postgresql.promote)
            second = await registering
            after = await app.connector.execute_query_one_async(process)
            return first, second, before["process"], after["process"]

    try:
        first, second, before, after = asyncio.run(register())
    finally:
        postgresql.promote()
    assert second > first
    # The address may lead to another server by now.
    assert after != before


async def _nothing(*_: object) -> None:
    pass
