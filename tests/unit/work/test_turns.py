"""Whose turn it is: campaigns on several testbeds are not overtaken on any of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.store.conftest import Place
from tests.unit.store.records import NOON
from tests.unit.work.test_queue import LIMIT_S, Hand
from tuner.queue_records import QueuedRun
from tuner.report.log import LogForm
from tuner.store import NewEvent, Store
from tuner.store.queue import Queue
from tuner.work.ending import JobEnd
from tuner.work.jobs import Requeue, deferring
from tuner.work.metrics import WorkerMetrics
from tuner.work.turns import is_ahead
from tuner.work.worker import Orders, Worker

SOON = NOON + timedelta(seconds=30)
TONIGHT = NOON + timedelta(hours=8)


def queue_of(*rows: str) -> list[QueuedRun]:
    """Return the queue with these jobs: ``TESTBEDS [taken|soon|tonight|elsewhere]...``, by the
    letters of their testbeds.
    """
    runs = []
    for number, row in enumerate(rows, start=1):
        letters, *words = row.split()
        times = {"soon": NOON + timedelta(seconds=15), "tonight": TONIGHT}
        runs.append(
            QueuedRun(
                number,
                f"c{number}",
                "elsewhere" if "elsewhere" in words else "here",
                tuple(letters),
                taken="taken" in words,
                worker=1 if "taken" in words else None,
                not_before=next((times[word] for word in words if word in times), None),
            )
        )
    return runs


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["b taken"], False),
        (["a", "b taken"], False),
        (["b taken", "ab"], False),
        # Overtaking: the earlier one is put back for a moment, as a testbed of its is in use.
        (["ab", "b taken"], True),
        (["ab soon", "b taken"], True),
        (["ab taken", "b taken"], True),
        # Of two that need the same testbeds, the earlier one has its turn.
        (["ab soon", "ba taken"], True),
        (["ba taken", "ab soon"], False),
        # Nobody waits for one that waits for its hours, or for a worker that there is not.
        (["ab tonight", "b taken"], False),
        (["ab elsewhere", "b taken"], False),
        (["ab elsewhere taken", "b taken"], True),
        # Nor for one that Procrastinate keeps behind such a one.
        (["ac tonight", "ab", "b taken"], False),
        (["ac elsewhere", "ab", "b taken"], False),
        (["ac tonight", "ab", "ad", "b taken"], False),
        (["ac tonight", "ba", "b taken"], True),
    ],
)
def test_whose_turn_it_is(rows: list[str], expected: bool) -> None:
    """Of the job that was taken, the last one in the queue that was."""
    runs = queue_of(*rows)
    job = max(run.id for run in runs if run.taken)
    assert is_ahead(runs, job, {"here"}, SOON) is expected


def test_no_two_jobs_wait_for_each_other() -> None:
    """The first of all that can run always has its turn."""
    runs = queue_of("a tonight", "ab", "bc soon", "cb", "ca taken", "a", "bca")
    waits = {run.id: is_ahead(runs, run.id, {"here"}, SOON) for run in runs}
    assert waits == {1: False, 2: False, 3: False, 4: True, 5: True, 6: True, 7: True}


@pytest.mark.postgres
def test_a_worker_puts_back_what_would_overtake(
    store: Store,
    queue: Queue,
    state: Path,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(state, address)
    other = Hand(place, queue)
    campaigns = {}
    for testbeds in ("ab", "b", "c"):
        campaign = store.create_campaign(testbeds, "{}", 0, NOON).id
        event = NewEvent(NOON, "campaign-queued", "on the queue")
        queue.put(campaign, deferring(campaign, "simulated", list(testbeds)), event)
        campaigns[testbeds] = campaign
    jobs = {run.campaign: run.id for run in queue.runs()}
    order: list[str] = []

    async def run(worker: Worker, campaign: str, *_: Any) -> JobEnd:
        order.append(campaign)
        return JobEnd.FINISHED

    monkeypatch.setattr(Worker, "_run", run)
    orders = Orders(state, address, ("simulated",), 1, LIMIT_S, LogForm.JSON)
    worker = Worker(store, queue, orders, WorkerMetrics(1), lambda *_, **__: None)

    def take(testbeds: str) -> None:
        context: Any = SimpleNamespace(job=SimpleNamespace(id=jobs[campaigns[testbeds]]))
        asyncio.run(worker._take(context, campaigns[testbeds], list(testbeds), False))

    with pytest.raises(Requeue, match="an earlier campaign needs its testbed") as back:
        take("b")
    assert back.value.after_s > 0.0
    take("c")
    take("ab")
    assert order == [campaigns["c"], campaigns["ab"]]
    other.sql(
        "UPDATE procrastinate_jobs SET scheduled_at = "
        f"'{datetime.now(UTC) + timedelta(hours=8)}' WHERE id = {jobs[campaigns['ab']]} "
        "RETURNING id"
    )
    take("b")
    assert order[-1] == campaigns["b"]
