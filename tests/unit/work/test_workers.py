"""Worker processes on simulated testbeds: they share, are killed or stopped, and take over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from sqlalchemy.exc import OperationalError

from tests.ending import kill, kill_runs
from tests.postgresql import Server
from tests.unit.campaign.campaigns import faster, spec
from tests.unit.cli.conftest import COMMAND
from tests.unit.work.stored_runs import decisions, kinds, runs_of
from tuner.model import Lease, Wish
from tuner.run.presence import status
from tuner.run.steering import steer
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState
from tuner.store import Store, problems
from tuner.store.queue import Queue
from tuner.store.queue_tables import SCHEMA
from tuner.work.queueing import enqueue

pytestmark = pytest.mark.postgres

#: A worker counts as dead after this time: longer than it is ever delayed by a busy machine.
LIMIT_S = 30.0
PATIENCE_S = 150.0

Start = Callable[..., "subprocess.Popen[bytes]"]


def campaign_on(testbed: str, **sections: object) -> CampaignSpec:
    """Return a campaign with clear effects and a sampler that ignores measurements: void blocks
    change the simulated noise, but no decision.
    """
    defaults: dict[str, object] = {
        "search": {
            "arms": 2,
            "blocks_per_trial": 6,
            "max_trials": 6,
            "sampler": "random",
        },
    }
    first = ({"fileserver.threads": 20}, {"fileserver.threads": 200})
    whole = spec(faster(-0.3), first=first, noise=0.0005, found=None, **(defaults | sections))
    assert whole.testbed is not None
    assert whole.testbed.section is not None
    simulated = whole.testbed.section.model_copy(update={"name": testbed})
    return whole.model_copy(
        update={"testbed": whole.testbed.model_copy(update={"simulated": simulated})}
    )


ENDLESS = {
    "search": {"arms": 2, "blocks_per_trial": 3, "max_trials": 5000, "sampler": "random"},
    "budget": {"wall_time": "900d"},
}


@pytest.fixture
def start(root: Path, state: Path, address: str, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a worker; those left at the end are killed."""
    processes: list[subprocess.Popen[bytes]] = []
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "FSTUNE_STATE_DIR": str(state),
        "FSTUNE_DATABASE_URL": address,
        "FSTUNE_TAKEOVER_AFTER_S": str(LIMIT_S),
    }

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"worker{len(processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*COMMAND, "worker", "--log", "json", *arguments],
                env=environment,
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def put(store: Store, queue: Queue, state: Path) -> Callable[[CampaignSpec], str]:
    """Return a function that puts a campaign on the queue and returns its identifier."""

    def add(new: CampaignSpec) -> str:
        now = datetime.now(UTC)
        campaign = store.create_campaign(new.name, new.to_json(), new.seed, now)
        enqueue(queue, campaign, state)
        return campaign.id

    return add


def wait_for(what: Callable[[], object], why: str, logs: Path, every_s: float = 0.2) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > deadline:
            output = [path.read_text()[-1500:] for path in sorted(logs.rglob("*.log"))]
            raise AssertionError("\n".join([f"waited in vain for {why}", *output]))
        time.sleep(every_s)


def blocks_of(store: Store, campaign: str, state: BlockState = BlockState.COMPLETE) -> int:
    return sum(block.state is state for block in store.blocks(campaign))


def is_finished(store: Store, campaign: str) -> bool:
    return store.campaign(campaign).state is CampaignState.FINISHED


def is_locked(store: Store, campaign: str) -> bool:
    """Return whether a transaction is changing the campaign. A process that is stopped within one
    keeps the lock, and nobody else could write.
    """
    statement = f"SELECT id FROM campaign WHERE id = '{campaign}' FOR UPDATE NOWAIT"
    try:
        with store._database.writer.begin() as connection:
            connection.exec_driver_sql(statement)
    except OperationalError:
        return True
    return False


def stopped_process(store: Store, campaigns: Sequence[str]) -> Lease | None:
    """Stop the process of a campaign in progress; return its lease, None when there is none."""
    for lease in store.leases():
        if lease.campaign not in campaigns or blocks_of(store, lease.campaign) < 3:
            continue
        with suppress(ProcessLookupError):
            os.kill(lease.holder.pid, signal.SIGSTOP)
        if (
            not is_locked(store, lease.campaign)
            and not is_finished(store, lease.campaign)
            and lease.token in {o.token for o in store.leases()}
        ):
            return lease
        with suppress(ProcessLookupError):
            os.kill(lease.holder.pid, signal.SIGCONT)
    return None


def kill_children(parent: int, word: str) -> None:
    """Kill the child processes with this word in their command."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):
            process = os.pidfd_open(int(child))
            try:
                if word.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)


def fall_silent(store: Store, worker: int) -> None:
    """Pretend that a killed worker has sent no heartbeat for too long."""
    with store._database.writer.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE {SCHEMA}.procrastinate_workers SET last_heartbeat = "
            f"last_heartbeat - interval '{LIMIT_S} s' WHERE id = {worker}"
        )


def worker_of(store: Store, campaign: str) -> int:
    took = [e for e in store.events(campaign) if e.kind == "worker-took"]
    return int(str(took[-1].data["worker"]))


@pytest.mark.timeout(400)
def test_three_workers_share_three_testbeds_and_one_of_them_is_killed(
    store: Store, queue: Queue, put: Callable[[CampaignSpec], str], start: Start, tmp_path: Path
) -> None:
    testbeds = ("one", "two", "three", "one")
    workers = [start() for _ in range(3)]
    wait_for(lambda: len(queue.workers()) == 3, "all workers", tmp_path)
    campaigns = [put(campaign_on(testbed)) for testbed in testbeds]
    stopped: list[Lease] = []

    def under_way() -> bool:
        stopped.extend(lease for lease in [stopped_process(store, campaigns)] if lease is not None)
        return bool(stopped)

    wait_for(under_way, "a campaign that is under way", tmp_path, every_s=0.02)
    victim, where = stopped[0].campaign, stopped[0].testbed
    # The others measure while it still has its testbed.
    measured = {c: blocks_of(store, c) for c in campaigns}
    wait_for(lambda: any(blocks_of(store, c) > measured[c] for c in campaigns), "more", tmp_path)
    assert stopped[0].token in {lease.token for lease in store.leases()}
    pids = {worker.id: worker.holder.pid for worker in queue.workers()}
    dead = worker_of(store, victim)
    (killed,) = [worker for worker in workers if worker.pid == pids[dead]]
    # Both at once, as when a host loses power.
    killed.kill()
    kill(stopped[0].holder)
    killed.wait()
    free = [c for c, t in zip(campaigns, testbeds, strict=True) if f"simulated {t}" != where]
    wait_for(lambda: all(is_finished(store, c) for c in free), "the end elsewhere", tmp_path)
    fall_silent(store, dead)
    wait_for(lambda: all(is_finished(store, c) for c in campaigns), "the end of all", tmp_path)

    assert problems(store) == []
    assert len({str(decisions(store, campaign)) for campaign in campaigns}) == 1
    assert kinds(store, victim).count("worker-lost") == 1
    assert [kind for c in campaigns for kind in kinds(store, c)].count("worker-lost") == 1
    assert worker_of(store, victim) != dead
    assert blocks_of(store, victim, BlockState.VOID) <= 1
    runs = [
        run
        for c, testbed in zip(campaigns, testbeds, strict=True)
        for run in runs_of(store.events(c), testbed)
    ]
    assert len(runs) == 5
    for run in runs:
        same = [other for other in runs if other.testbed == run.testbed and other is not run]
        assert not any(run.overlaps(other) for other in same)
    wait_for(lambda: queue.runs() == [], "the end of the jobs", tmp_path)
    for worker in workers:
        if worker is not killed:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_S) == 0
    assert queue.workers() == []


@pytest.mark.timeout(400)
def test_a_worker_waits_for_the_database_and_once_stopped_leaves_its_campaign_to_the_next(
    store: Store,
    queue: Queue,
    put: Callable[[CampaignSpec], str],
    start: Start,
    tmp_path: Path,
    postgresql: Server,
) -> None:
    campaign = put(campaign_on("one", **ENDLESS))
    first = start()
    wait_for(lambda: blocks_of(store, campaign) > 1, "blocks", tmp_path)
    postgresql.stop()
    postgresql.start()
    measured = blocks_of(store, campaign)
    since_s = time.monotonic()
    wait_for(lambda: blocks_of(store, campaign) > measured + 2, "more blocks", tmp_path)

    def gave_sign() -> bool:
        now_s = time.monotonic()
        return queue.workers()[0].beat_age_s < now_s - since_s

    wait_for(gave_sign, "a heartbeat", tmp_path)
    events = kinds(store, campaign)
    assert (events.count("worker-took"), events.count("worker-lost")) == (1, 0)
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    assert store.campaign(campaign).state is CampaignState.PAUSED
    assert [run.taken for run in queue.runs()] == [False]
    assert (queue.workers(), store.leases()) == ([], [])
    measured = blocks_of(store, campaign)
    second = start()
    wait_for(lambda: blocks_of(store, campaign) > measured + 1, "more blocks", tmp_path)
    # If only the worker is killed, its process pauses the campaign and restores the testbed.
    (registered,) = queue.workers()
    second.kill()
    wait_for(lambda: store.leases() == [], "the end of its process", tmp_path)
    fall_silent(store, registered.id)
    record = store.campaign(campaign)
    assert (record.state, record.reason) == (CampaignState.PAUSED, "stopped by SIGTERM")
    start()
    wait_for(lambda: store.campaign(campaign).state is CampaignState.RUNNING, "it", tmp_path)
    steer(store, store.campaign(campaign), Wish.PAUSE, "here", datetime.now(UTC))
    wait_for(lambda: queue.runs() == [], "the end of its job", tmp_path)
    assert store.campaign(campaign).state is CampaignState.PAUSED


@pytest.mark.timeout(400)
def test_a_cancellation_outlives_the_process_that_was_to_carry_it_out(
    store: Store, queue: Queue, put: Callable[[CampaignSpec], str], start: Start, tmp_path: Path
) -> None:
    campaign = put(campaign_on("one", **ENDLESS))
    start()
    stopped: list[Lease] = []

    def under_way() -> bool:
        lease = stopped_process(store, [campaign])
        stopped.extend([] if lease is None else [lease])
        return bool(stopped)

    wait_for(under_way, "blocks", tmp_path, every_s=0.02)
    answer = steer(store, store.campaign(campaign), Wish.CANCEL, "here", datetime.now(UTC))
    assert "will cancel at the next safe point" in answer
    kill(stopped[0].holder)
    wait_for(lambda: queue.runs() == [], "the end of its job", tmp_path)
    record = store.campaign(campaign)
    assert (record.state, record.reason) == (CampaignState.CANCELLED, "cancel requested from here")
    past = kinds(store, campaign)
    died = past.index("run-died")
    assert "block-complete" not in past[died:]
    assert "testbed-ready" in past[died:]


@pytest.mark.timeout(400)
def test_a_campaign_that_cannot_be_run_is_given_up_with_the_reason(
    store: Store,
    queue: Queue,
    put: Callable[[CampaignSpec], str],
    start: Start,
    tmp_path: Path,
    unused_port: int,
) -> None:
    crashing = put(campaign_on("one", **ENDLESS))
    refused = put(campaign_on("two"))
    with store._database.writer.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE campaign SET spec = replace(spec, 'mixed-use', 'no-such-workload') "
            f"WHERE id = '{refused}'"
        )
    worker = start("--concurrency", "2", "--metrics", f"127.0.0.1:{unused_port}")
    measuring: list[Lease] = []

    def kill_again() -> bool:
        measuring.extend(lease for lease in store.leases() if lease.campaign == crashing)
        if measuring:
            # Once while it measures; after that as it starts, which takes less time.
            kill_runs(store)
            kill_children(worker.pid, crashing)
        states = {store.campaign(c).state for c in (crashing, refused)}
        return states == {CampaignState.FAILED} and queue.runs() == []

    wait_for(kill_again, "the failure of both", tmp_path, every_s=0.02)
    # A death after a complete block was not counted against it.
    died = kinds(store, crashing).count("run-died")
    assert died >= 3
    assert "signal 9" in store.campaign(crashing).reason
    assert "no-such-workload" in store.campaign(refused).reason
    with urlopen(f"http://127.0.0.1:{unused_port}/metrics", timeout=60) as answer:
        metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines())
    assert float(metrics['fstune_worker_runs_total{end="given-up"}']) == 1
    assert float(metrics['fstune_worker_runs_total{end="refused"}']) == 1
    assert float(metrics['fstune_worker_runs_total{end="died"}']) == died - 1
    assert float(metrics["fstune_worker_running_campaigns"]) == 0
    assert 0.0 <= float(metrics["fstune_worker_heartbeat_age_seconds"]) < LIMIT_S


@pytest.fixture
def night_testbed(root: Path, tmp_path: Path) -> CampaignSpec:
    """Return a campaign on hosts whose hours start in two hours."""
    document = yaml.safe_load((root / "tests/data/testbeds/everything.yaml").read_text())
    start, end = (datetime.now().astimezone() + timedelta(hours=hours) for hours in (2, 3))
    document["hours"] = {"start": f"{start:%H:%M}", "end": f"{end:%H:%M}"}
    document["clients"] = document["clients"][:1]
    (tmp_path / "testbed.yaml").write_text(yaml.safe_dump(document))
    campaign = {
        "name": "night",
        "testbed": {"hosts": str(tmp_path / "testbed.yaml")},
        "spaces": {"cache_manager": "openafs-cache-manager-fuse-1.8"},
        "workload": "mixed-use",
    }
    return CampaignSpec.model_validate(campaign)


@pytest.mark.timeout(400)
def test_a_campaign_waits_on_the_queue_for_the_hours_of_its_testbed(
    store: Store,
    queue: Queue,
    put: Callable[[CampaignSpec], str],
    start: Start,
    night_testbed: CampaignSpec,
    tmp_path: Path,
) -> None:
    """Its hosts do not exist: nothing connects to them."""
    campaign = put(night_testbed)
    start()
    wait_for(lambda: queue.runs()[0].not_before, "its return to the queue", tmp_path)
    (run,) = queue.runs()
    (waiting,) = status(store).waiting
    assert run.not_before is not None
    assert waiting.not_before == run.not_before
    assert timedelta(hours=1) < run.not_before - datetime.now(UTC) <= timedelta(hours=2)
    now = store.campaign(campaign)
    assert now.state is CampaignState.PAUSED
    assert now.reason.startswith("outside the hours of testbed spare fileserver (")
    assert not run.taken
    assert "off the queue" in steer(store, now, Wish.PAUSE, "here", datetime.now(UTC))
    assert queue.runs() == []
