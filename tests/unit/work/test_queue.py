"""The queue in the database: jobs are added, withdrawn, and taken over from dead workers, once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.postgresql import Server
from tests.unit.store import records
from tests.unit.store.conftest import Place
from tests.unit.work.stored_runs import kinds
from tuner.errors import ConflictError, SpecError, StoreError
from tuner.model import Holder, Request, Wish
from tuner.queue_records import QueuedRun
from tuner.run.steering import steer
from tuner.states import CampaignState
from tuner.store import NewEvent, Store, queue_tables, upgrade
from tuner.store.deletion import delete_campaign
from tuner.store.opening import open_database
from tuner.store.queue import Queue
from tuner.work.jobs import deferring

pytestmark = pytest.mark.postgres

HERE = Holder("here", "boot:1", 4711, 99)
#: Far longer than any test takes.
LIMIT_S = 3600.0
DAY_S = 86_400.0


def put(store: Store, queue: Queue, testbed: str = "hall 7", name: str = "simulated") -> str:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    event = NewEvent(records.NOON, "campaign-queued", "on the queue")
    queue.put(campaign, deferring(campaign, name, [testbed]), event)
    return campaign


class Hand:
    """A worker as seen by the database: uses only Procrastinate's own functions."""

    def __init__(self, place: Place, queue: Queue, limit_s: float = LIMIT_S) -> None:
        self._place = place
        self.id = int(str(self.sql("SELECT worker_id FROM procrastinate_register_worker_v1()")))
        queue.register(self.id, HERE, ["simulated"], 1, limit_s)

    def sql(self, statement: str) -> object:
        with self._place.raw() as connection:
            queue_tables.look_there_first(connection)
            result = connection.execute(text(statement)).scalar()
            connection.commit()
            return result

    def take(self, queues: Sequence[str] = ("simulated",)) -> int | None:
        """Take a job as a worker does; return its number, None when there is none to take."""
        quoted = ", ".join(f"'{name}'" for name in queues)
        job = self.sql(
            f"SELECT id FROM procrastinate_fetch_job_v2(ARRAY[{quoted}]::varchar[], {self.id})"
        )
        return None if job is None else int(str(job))

    def fall_silent(self, for_s: float) -> None:
        """Let this time pass. It is taken off the limit instead, as silence counts from the start
        of the server at the earliest.
        """
        self.sql(f"UPDATE worker SET limit_s = limit_s - {for_s} WHERE id = {self.id} RETURNING id")


@pytest.fixture
def place(state: Path, address: str) -> Place:
    return Place(state, address)


def test_a_campaign_is_queued_once_and_stores_an_event(store: Store, queue: Queue) -> None:
    campaign = put(store, queue)
    (run,) = queue.runs()
    assert run == QueuedRun(run.id, campaign, "simulated", ("hall 7",), taken=False, worker=None)
    assert kinds(store, campaign) == ["campaign-created", "campaign-queued"]
    event = NewEvent(records.NOON, "campaign-queued", "again")
    with pytest.raises(ConflictError, match="is already queued"):
        queue.put(campaign, deferring(campaign, "simulated", []), event)
    assert len(queue.runs()) == 1
    assert kinds(store, campaign) == ["campaign-created", "campaign-queued"]


def test_one_testbed_is_given_to_one_worker_at_a_time(
    store: Store, queue: Queue, place: Place
) -> None:
    first, second, other = put(store, queue), put(store, queue), put(store, queue, "hall 8")
    one, two = Hand(place, queue), Hand(place, queue)
    one.take()
    two.take()
    assert one.take() is None
    taken = {run.campaign: run.worker for run in queue.runs() if run.taken}
    assert taken == {first: one.id, other: two.id}
    assert [run.campaign for run in queue.runs() if not run.taken] == [second]
    assert two.take(["hosts@elsewhere"]) is None


def test_jobs_of_dead_workers_are_requeued_once_by_concurrent_checks(
    store: Store, queue: Queue, place: Place
) -> None:
    campaign = put(store, queue)
    dead, alive = Hand(place, queue), Hand(place, queue)
    dead.take()
    dead.fall_silent(LIMIT_S / 2)
    assert queue.take_over() == []
    dead.fall_silent(LIMIT_S + 1)
    results: list[list[QueuedRun]] = []
    threads = [threading.Thread(target=lambda: results.append(queue.take_over())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (lost,) = [run for runs in results for run in runs]
    assert (lost.campaign, lost.worker) == (campaign, dead.id)
    assert kinds(store, campaign).count("worker-lost") == 1
    assert [worker.id for worker in queue.workers()] == [alive.id]
    assert alive.take() == lost.id
    assert queue.take_over() == []


def two_of_a_dead_worker(store: Store, queue: Queue, place: Place) -> tuple[Hand, str, str]:
    """Two campaigns, and the worker that took them and died."""
    first, other = put(store, queue), put(store, queue, "hall 8")
    dead = Hand(place, queue)
    jobs = dead.take(), dead.take()
    assert None not in jobs
    dead.fall_silent(LIMIT_S + 1)
    return dead, first, other


def test_a_deleted_campaign_leaves_no_job_with_a_dead_worker(
    store: Store, queue: Queue, place: Place
) -> None:
    _, first, other = two_of_a_dead_worker(store, queue, place)
    delete_campaign(store, first)
    assert [run.campaign for run in queue.runs()] == [other]
    assert [lost.campaign for lost in queue.take_over()] == [other]


def test_a_job_without_a_campaign_holds_up_no_other(
    store: Store, queue: Queue, place: Place
) -> None:
    """Deleting a campaign used to leave its job."""
    dead, first, other = two_of_a_dead_worker(store, queue, place)
    dead.sql(
        "UPDATE procrastinate_jobs SET args = jsonb_set(args, '{campaign}', '\"no such\"') "
        f"WHERE args->>'campaign' = '{first}' RETURNING id"
    )
    assert [lost.campaign for lost in queue.take_over()] == [other]
    assert [(run.campaign, run.taken) for run in queue.runs()] == [(other, False)]
    assert queue.workers() == []


def test_a_worker_is_judged_by_its_own_limit(store: Store, queue: Queue, place: Place) -> None:
    put(store, queue)
    slow = Hand(place, queue, limit_s=9 * LIMIT_S)
    slow.take()
    slow.fall_silent(LIMIT_S + 1)
    assert queue.take_over() == []
    (worker,) = queue.workers()
    assert (worker.holder, worker.queues, worker.limit_s) == (HERE, ("simulated",), 8 * LIMIT_S - 1)


def test_the_time_in_which_the_server_was_away_is_no_silence(
    store: Store, queue: Queue, place: Place
) -> None:
    put(store, queue)
    worker = Hand(place, queue, limit_s=10 * DAY_S)
    worker.take()
    worker.sql(
        "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '30 days' RETURNING id"
    )
    assert [run.stalled for run in queue.runs()] == [False]
    assert queue.take_over() == []
    (registered,) = queue.workers()
    assert registered.beat_age_s > 29 * DAY_S
    assert queue.beat(worker.id)
    (registered,) = queue.workers()
    assert registered.beat_age_s < LIMIT_S


def test_only_a_registered_worker_sends_heartbeats(queue: Queue, place: Place) -> None:
    worker = Hand(place, queue)
    assert queue.beat(worker.id)
    worker.fall_silent(LIMIT_S + 1)
    queue.take_over()
    assert not queue.beat(worker.id)


def test_nothing_is_taken_over_when_the_answer_came_too_late(
    store: Store, queue: Queue, place: Place
) -> None:
    dead, *campaigns = two_of_a_dead_worker(store, queue, place)
    assert queue.take_over(lambda: False) == []
    assert [worker.id for worker in queue.workers()] == [dead.id]
    assert {lost.campaign for lost in queue.take_over(lambda: True)} == {*campaigns}


def test_jobs_unknown_to_their_worker_are_requeue(store: Store, queue: Queue, place: Place) -> None:
    put(store, queue)
    one, two = Hand(place, queue), Hand(place, queue)
    job = one.take()
    assert job is not None
    queue.requeue(two.id, {job})
    assert two.take() is None
    queue.requeue(one.id, {job})
    assert two.take() == job


@pytest.mark.parametrize("wish", list(Wish))
def test_a_waiting_campaign_is_taken_off_the_queue(store: Store, queue: Queue, wish: Wish) -> None:
    campaign = put(store, queue)
    steer(store, store.campaign(campaign), wish, "here", datetime.now(UTC))
    assert queue.runs() == []
    assert "off-queue" in kinds(store, campaign)
    cancelled = store.campaign(campaign).state is CampaignState.CANCELLED
    assert cancelled == (wish is Wish.CANCEL)


@pytest.mark.parametrize("wish", list(Wish))
def test_a_campaign_of_a_dead_worker_stays_ended_by_hand(
    store: Store, queue: Queue, place: Place, wish: Wish
) -> None:
    campaign = put(store, queue)
    worker = Hand(place, queue)
    worker.take()
    worker.fall_silent(LIMIT_S + 1)
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    steer(store, store.campaign(campaign), wish, "here", datetime.now(UTC))
    assert queue.runs() == []
    assert store.campaign(campaign).state is not CampaignState.RUNNING


@pytest.mark.parametrize("wish", list(Wish))
def test_a_campaign_that_a_worker_will_resume_gets_a_request(
    store: Store, queue: Queue, place: Place, wish: Wish
) -> None:
    """Its process has died, and the next one, which is starting, would not notice anything else."""
    campaign = put(store, queue)
    Hand(place, queue).take()
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    done = steer(store, store.campaign(campaign), wish, "here", datetime.now(UTC))
    assert done == f"campaign {campaign} will {wish} at the next safe point"
    request = store.request(campaign)
    assert request is not None
    assert request.wish is wish
    assert len(queue.runs()) == 1


def test_a_campaign_that_is_resumed_at_the_same_moment_is_not_cancelled_behind_its_back(
    store: Store,
) -> None:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    store.move_campaign(campaign, CampaignState.PAUSED, "", records.event())
    record = store.campaign(campaign)
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    with pytest.raises(ConflictError, match=f"campaign {campaign} is running by now; try again"):
        steer(store, record, Wish.CANCEL, "here", datetime.now(UTC))
    assert store.campaign(campaign).state is CampaignState.RUNNING


def test_a_campaign_that_is_queued_again_is_to_run(store: Store, queue: Queue) -> None:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    store.ask(campaign, Request(Wish.CANCEL, "here", records.NOON), records.event())
    queue.put(campaign, deferring(campaign, "simulated", []), records.event("campaign-queued"))
    assert store.request(campaign) is None


def test_a_campaign_that_was_just_taken_cannot_be_paused(
    store: Store, queue: Queue, place: Place
) -> None:
    campaign = put(store, queue)
    Hand(place, queue).take()
    with pytest.raises(ConflictError, match="is not running"):
        steer(store, store.campaign(campaign), Wish.PAUSE, "here", datetime.now(UTC))
    assert len(queue.runs()) == 1


def shape(place: Place) -> dict[str, object]:
    """Return the tables, columns, indexes and functions of a queue."""
    questions = {
        "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default "
        "FROM information_schema.columns WHERE table_schema = :schema",
        "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = :schema",
        "triggers": "SELECT DISTINCT trigger_name, event_manipulation "
        "FROM information_schema.triggers WHERE trigger_schema = :schema",
        "values": "SELECT t.typname, e.enumlabel FROM pg_enum e JOIN pg_type t ON "
        "t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace "
        "WHERE n.nspname = :schema",
        "applied": f"SELECT name FROM {queue_tables.SCHEMA}.applied",
    }
    with place.raw() as connection:
        return {
            what: sorted(map(tuple, connection.execute(text(q), {"schema": "fstune_queue"})))
            for what, q in questions.items()
        }


def test_a_queue_made_by_all_migrations_equals_a_new_one(
    postgresql: Server, template: str, tmp_path: Path
) -> None:
    new, old = (Place(tmp_path, postgresql.url(postgresql.new(template))) for _ in range(2))
    assert upgrade(tmp_path, new.address).queue
    assert not upgrade(tmp_path, new.address).queue
    with old.raw() as connection:
        connection.execute(text(f"CREATE SCHEMA {queue_tables.SCHEMA}"))
        connection.execute(text(queue_tables._APPLIED))
        connection.commit()
    with old.open() as store, pytest.raises(StoreError, match="run 'fstune db upgrade'"):
        Queue.create(store)
    assert upgrade(tmp_path, old.address).queue
    assert not upgrade(tmp_path, old.address).queue
    assert shape(old) == shape(new)
    with old.open() as store:
        campaign = put(store, queue := Queue.create(store))
        assert Hand(old, queue).take() is not None
        assert [run.campaign for run in queue.runs()] == [campaign]


def test_a_queue_of_a_newer_fstune_is_left_alone(place: Place, store: Store, queue: Queue) -> None:
    with place.raw() as connection:
        connection.execute(text(f"INSERT INTO {queue_tables.SCHEMA}.applied VALUES ('99_new')"))
        connection.commit()
    with pytest.raises(StoreError, match="newer fstune"):
        Queue.create(store)


def test_several_threads_create_one_queue(postgresql: Server, template: str) -> None:
    address = postgresql.url(postgresql.new(template))
    failed: list[Exception] = []

    def make() -> None:
        database = open_database(Path("unused"), address)
        try:
            queue_tables.prepare(database)
        except Exception as error:
            failed.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_file_has_no_queue(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        assert Queue.find(store) is None
        with pytest.raises(SpecError, match="PostgreSQL"):
            Queue.create(store)
