"""Workers and the service decide from few events, however many a campaign has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Connection

from api.starting import _never_ran
from tests.counting import calls_of
from tests.unit.store.records import NOON
from tests.unit.work.test_ending import campaign, events
from tuner.model import Event
from tuner.report.log import LogForm
from tuner.states import CampaignState
from tuner.store import NewEvent, Store, queries
from tuner.store.queue import Queue
from tuner.work.ending import MOST_DEATHS, JobEnd, RunEnd, end_without_run, job_end
from tuner.work.metrics import WorkerMetrics
from tuner.work.runs import run_of
from tuner.work.worker import Orders, Worker

#: What a campaign measures between two of the other events of its history.
MEASURED = ("block-started", *["measured"] * 30)
STARTED = ("campaign-queued", "worker-took", "campaign-started")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        yield store


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns how many events there have been in memory since its last
    call.
    """
    return calls_of(monkeypatch, Event, "__init__")


def with_history(store: Store, history: tuple[str, ...]) -> str:
    """Store a campaign with these events, and with those of measurements before each of them."""
    identifier = store.create_campaign("long", "{}", 1, NOON).id

    def add(connection: Connection) -> None:
        for event in events(*history):
            for kind in MEASURED:
                queries.add_event(connection, identifier, NewEvent(NOON, kind, ""))
            new = NewEvent(NOON, event.kind, "", event.data)
            queries.add_event(connection, identifier, new)

    store._database.write(add)
    return identifier


def worker_of(store: Store, directory: Path) -> Worker:
    orders = Orders(directory, "unused", (), 1, 60.0, LogForm.JSON)
    return Worker(store, cast(Queue, None), orders, WorkerMetrics(1), lambda *_, **__: None)


@pytest.mark.parametrize(
    ("state", "history", "before", "after"),
    [
        ("created", ("campaign-queued",), None, JobEnd.DIED),
        ("created", ("campaign-queued", "worker-took"), None, JobEnd.REFUSED),
        ("running", STARTED, None, JobEnd.DIED),
        ("running", (*STARTED, "block-complete"), None, JobEnd.DIED),
        (
            "running",
            (*STARTED, "block-complete", *["run-died"] * (MOST_DEATHS - 1)),
            None,
            JobEnd.GIVEN_UP,
        ),
        (
            "running",
            (*STARTED, *["run-died"] * (MOST_DEATHS - 1), "block-complete", "run-died"),
            None,
            JobEnd.DIED,
        ),
        ("paused", (*STARTED, "pause-requested", "campaign-paused"), JobEnd.PAUSED, JobEnd.PAUSED),
        ("paused", (*STARTED, "campaign-paused until 20:00"), None, JobEnd.WAITING),
        ("failed", (*STARTED, "campaign-failed"), JobEnd.FAILED, JobEnd.FAILED),
        ("finished", (*STARTED, "campaign-finished"), JobEnd.FINISHED, JobEnd.FINISHED),
    ],
)
def test_a_worker_decides_from_few_events(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events_read: Callable[[], int],
    state: str,
    history: tuple[str, ...],
    before: JobEnd | None,
    after: JobEnd,
) -> None:
    identifier = with_history(store, history)
    record = campaign(state)
    monkeypatch.setattr(store, "campaign", lambda _: record)
    all_events, worker = store.events(identifier), worker_of(store, tmp_path)
    assert end_without_run(record, all_events) is before
    assert job_end(RunEnd(record, all_events, 1, in_use=False, stopping=False)) is after
    assert events_read() > len(MEASURED) * len(history)
    assert worker._end_without_run(identifier) is before
    assert events_read() <= len(history) + 2
    monkeypatch.setattr(worker, "_fail", lambda *_: None)
    run = run_of(identifier, tmp_path, None)
    assert worker._settle_end(identifier, [], run, 1) is after
    assert events_read() <= len(history) + 3  # and the one that it stores
    assert store.campaign(identifier).state is CampaignState(state)


@pytest.mark.parametrize(
    ("last", "never_ran"), [("resume-requested", True), ("campaign-failed", False)]
)
def test_the_service_looks_at_the_newest_event(
    store: Store, events_read: Callable[[], int], last: str, never_ran: bool
) -> None:
    identifier = with_history(store, ("resume-requested", last))
    events_read()
    assert _never_ran(store, identifier) is never_ran
    assert events_read() == 1
