"""Pausing a queued campaign at the moment when a worker takes it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, text

from tests.unit.store import records
from tests.unit.store.conftest import Place
from tests.unit.work.stored_runs import kinds
from tests.unit.work.test_queue import HERE, LIMIT_S, Hand, put
from tests.waiting import wait_for
from tuner.errors import ConflictError
from tuner.model import Wish
from tuner.run import steering
from tuner.run.steering import steer
from tuner.states import CampaignState
from tuner.store import Store, queue_tables
from tuner.store import queue as queue_module
from tuner.store.queue import Queue

pytestmark = pytest.mark.postgres


@pytest.fixture
def place(state: Path, address: str) -> Place:
    return Place(state, address)


def test_a_campaign_that_is_being_taken_off_goes_to_no_worker(
    store: Store, queue: Queue, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker asks for a job between the look at the queue and the removal from it."""
    campaign = put(store, queue)
    worker, jobs = Hand(place, queue), queue_module._jobs
    answers: list[int | None] = []

    def look(*arguments: Any) -> list[Row[Any]]:
        rows = jobs(*arguments)
        answers.append(worker.take())
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(queue_module, "_jobs", look)
        assert queue.withdraw(campaign, records.event("off-queue"))
    assert answers == [None]
    assert queue.runs() == []


@pytest.mark.parametrize("from_worker", [False, True])
def test_a_campaign_that_a_worker_is_taking_is_not_taken_off(
    store: Store, queue: Queue, place: Place, from_worker: bool
) -> None:
    """Unless it is to be taken off even from a worker."""
    campaign = put(store, queue)
    worker = Hand(place, queue)
    results: list[bool] = []

    def withdraw() -> None:
        event = records.event("off-queue")
        results.append(queue.withdraw(campaign, event, from_worker=from_worker))

    def waits() -> bool:
        query = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return worker.sql(query) == 1

    thread = threading.Thread(target=withdraw)
    fetch = f"procrastinate_fetch_job_v2(ARRAY['simulated']::varchar[], {worker.id})"
    with place.raw() as connection:
        queue_tables.look_there_first(connection)
        assert connection.execute(text(f"SELECT id FROM {fetch}")).scalar() is not None
        thread.start()
        wait_for(waits, "the withdrawal to wait for the worker")
        connection.commit()
    thread.join()
    assert results == [from_worker]
    assert [run.worker for run in queue.runs()] == ([] if from_worker else [worker.id])
    assert ("off-queue" in kinds(store, campaign)) is from_worker


@pytest.mark.parametrize("state", [CampaignState.CREATED, CampaignState.PAUSED])
def test_who_pauses_a_campaign_that_a_worker_is_starting_is_told_so(
    store: Store, queue: Queue, place: Place, state: CampaignState
) -> None:
    campaign = put(store, queue)
    if state is CampaignState.PAUSED:
        for one in (CampaignState.RUNNING, state):
            store.move_campaign(campaign, one, "", records.event())
    worker = Hand(place, queue)
    assert worker.take() is not None

    def refusal() -> str:
        with pytest.raises(ConflictError) as refused:
            steer(store, store.campaign(campaign), Wish.PAUSE, "here", datetime.now(UTC))
        return str(refused.value)

    before = kinds(store, campaign)
    assert refusal() == (
        f"campaign {campaign} is not running: a worker has it, and is just starting or ending its "
        "run; try again in a few seconds"
    )
    assert kinds(store, campaign) == before
    # Once it runs, it is asked to pause.
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    done = steer(store, store.campaign(campaign), Wish.PAUSE, "here", datetime.now(UTC))
    assert done == f"campaign {campaign} will pause at the next safe point"


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("state", [CampaignState.CREATED, CampaignState.RUNNING])
@pytest.mark.parametrize("wish", list(Wish))
def test_a_campaign_whose_worker_died_is_ended_at_once(
    store: Store,
    queue: Queue,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    wish: Wish,
    state: CampaignState,
    silent: bool,
) -> None:
    """Otherwise it would run, or be asked to end, only once another worker has taken it over. On
    the machine of the worker, its death is known before it has been silent for long.
    """
    campaign = put(store, queue)
    worker = Hand(place, queue)
    assert worker.take() is not None
    if state is CampaignState.RUNNING:
        store.move_campaign(campaign, state, "", records.event())
    if silent:
        worker.fall_silent(LIMIT_S + 1)
    else:
        monkeypatch.setattr(steering, "is_gone", lambda holder: holder == HERE)
    done = steer(store, store.campaign(campaign), wish, "here", datetime.now(UTC))
    assert "next safe point" not in done
    assert queue.runs() == []
    assert kinds(store, campaign).count("off-queue") == 1
    after = {Wish.PAUSE: CampaignState.PAUSED, Wish.CANCEL: CampaignState.CANCELLED}[wish]
    if (wish, state) == (Wish.PAUSE, CampaignState.CREATED):
        after = state
    assert store.campaign(campaign).state is after


@pytest.mark.parametrize("wish", list(Wish))
def test_a_campaign_that_a_worker_takes_after_its_process_died_is_not_ended_behind_its_back(
    store: Store, queue: Queue, place: Place, monkeypatch: pytest.MonkeyPatch, wish: Wish
) -> None:
    campaign = put(store, queue)
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    worker, ask = Hand(place, queue), steering._has_worker
    job: list[int | None] = []

    def has_worker(*arguments: Any) -> bool:
        answer = ask(*arguments)
        if not job:
            job.append(worker.take())
        return answer

    monkeypatch.setattr(steering, "_has_worker", has_worker)
    with pytest.raises(ConflictError, match="a worker has it"):
        steer(store, store.campaign(campaign), wish, "here", datetime.now(UTC))
    assert [(run.id, run.worker) for run in queue.runs()] == [(job[0], worker.id)]
    assert store.campaign(campaign).state is CampaignState.RUNNING
    done = steer(store, store.campaign(campaign), wish, "here", datetime.now(UTC))
    assert done == f"campaign {campaign} will {wish} at the next safe point"


def test_a_campaign_that_is_over_is_not_said_to_be_starting(
    store: Store, queue: Queue, place: Place
) -> None:
    """Its worker has yet to end the job."""
    campaign = put(store, queue)
    Hand(place, queue).take()
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    store.move_campaign(campaign, CampaignState.FINISHED, "", records.event())
    with pytest.raises(ConflictError, match=f"campaign {campaign} is finished; it is not running"):
        steer(store, store.campaign(campaign), Wish.PAUSE, "here", datetime.now(UTC))
