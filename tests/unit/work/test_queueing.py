"""Queueing campaigns from the command line, and the display of the queue."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.unit.store.conftest import Place
from tests.unit.store.records import NOON
from tests.unit.work.test_queue import LIMIT_S, Hand
from tests.unit.work.test_workers import campaign_on
from tuner.cli.app import app
from tuner.errors import SpecError
from tuner.holders import is_gone, this_process
from tuner.model import Holder
from tuner.run.identity import aspect
from tuner.run.runner import Runner, RunOutcome
from tuner.states import CampaignState, EventKind
from tuner.store import NewEvent, Store
from tuner.store.queue import Queue
from tuner.work.ending import end_without_run
from tuner.work.queueing import queue_name, queues_of

HOST = socket.gethostname()


def fstune(state: Path, address: str | None, *arguments: str) -> Result:
    where = ["--state-dir", str(state), *(() if address is None else ("--database", address))]
    return CliRunner().invoke(app, [*arguments, *where], env={"COLUMNS": "200"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "campaign.yaml"
    document = campaign_on("one").model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.postgres
def test_a_campaign_is_queued_shown_and_taken_off(
    state: Path, address: str, store: Store, queue: Queue, file: Path
) -> None:
    done = fstune(state, address, "run", str(file), "--queue")
    assert done.exit_code == 0, (done.output, done.exception)
    (campaign,) = store.campaigns()
    assert f"campaign {campaign.id} is on the queue simulated" in done.output
    assert "no worker takes campaigns from it yet" in done.output
    (run,) = queue.runs()
    assert (run.campaign, run.testbeds) == (campaign.id, ("simulated one",))
    status = fstune(state, address, "status").output
    assert "No campaign is running." in status
    assert campaign.id in status
    assert "simulated: no worker takes from it" in status
    again = fstune(state, address, "resume", campaign.id, "--queue")
    assert "is already queued" in str(again.exception)
    assert "off the queue" in fstune(state, address, "pause", campaign.id).output
    assert fstune(state, address, "resume", campaign.id, "--queue").exit_code == 0
    assert fstune(state, address, "cancel", campaign.id).exit_code == 0
    assert queue.runs() == []
    refused = fstune(state, address, "resume", campaign.id, "--queue")
    assert "is cancelled and cannot be resumed" in str(refused.exception)


@pytest.mark.postgres
def test_a_waiting_campaign_is_deleted_once_it_is_cancelled(
    state: Path, address: str, store: Store, queue: Queue, file: Path
) -> None:
    assert fstune(state, address, "run", str(file), "--queue").exit_code == 0
    (campaign,) = store.campaigns()
    refused = str(fstune(state, address, "delete", campaign.id, "--yes").exception)
    assert f"waits for a worker; first: fstune cancel {campaign.id}" in refused
    assert fstune(state, address, "cancel", campaign.id).exit_code == 0
    assert fstune(state, address, "delete", campaign.id, "--yes").exit_code == 0
    assert (store.campaigns(), queue.runs()) == ([], [])


@pytest.mark.postgres
@pytest.mark.parametrize("silent_s", [0.0, LIMIT_S + 1])
def test_a_campaign_that_a_worker_took_and_did_not_begin_is_deleted(
    state: Path, address: str, store: Store, queue: Queue, file: Path, silent_s: float
) -> None:
    assert fstune(state, address, "run", str(file), "--queue").exit_code == 0
    (campaign,) = store.campaigns()
    worker = Hand(Place(state, address), queue)
    assert worker.take() is not None
    worker.fall_silent(silent_s)
    assert fstune(state, address, "delete", campaign.id, "--yes").exit_code == 0
    assert (store.campaigns(), queue.runs()) == ([], [])


@pytest.mark.postgres
@pytest.mark.parametrize("by_worker", [False, True])
def test_a_campaign_that_is_run_by_hand_is_taken_off_the_queue(
    state: Path, address: str, store: Store, queue: Queue, file: Path, by_worker: bool
) -> None:
    """Otherwise a worker would start it again once it is paused."""
    fstune(state, address, "run", str(file), "--queue")
    (campaign,) = store.campaigns()
    arguments = ["--from-queue"] if by_worker else []
    done = fstune(state, address, "resume", campaign.id, *arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    off = [e.message for e in store.events(campaign.id) if e.kind == "off-queue"]
    if by_worker:
        assert ([run.campaign for run in queue.runs()], off) == ([campaign.id], [])
    else:
        assert (queue.runs(), off) == (
            [],
            ["taken off the queue: it was resumed without a worker"],
        )
        assert off[0] in done.output


@pytest.mark.postgres
def test_a_campaign_stays_on_the_queue_when_it_cannot_be_run_by_hand(
    state: Path, address: str, store: Store, queue: Queue, file: Path
) -> None:
    fstune(state, address, "run", str(file), "--queue")
    (campaign,) = store.campaigns()
    other = store.create_campaign("other", "{}", 0, NOON).id
    event = NewEvent(NOON, "block-void", "")
    store.take_testbeds(other, ["simulated one"], this_process(), LIMIT_S, is_gone, event)
    done = fstune(state, address, "resume", campaign.id)
    assert "is in use by campaign" in str(done.exception)
    assert [run.campaign for run in queue.runs()] == [campaign.id]


@pytest.mark.postgres
@pytest.mark.parametrize("before", [CampaignState.PAUSED, CampaignState.FAILED])
def test_a_campaign_stays_on_the_queue_when_it_is_refused_because_its_testbed_has_changed(
    state: Path, address: str, store: Store, queue: Queue, file: Path, before: CampaignState
) -> None:
    """What a worker finds is not decided by the refusal, nor by a pause before it was queued."""
    document = yaml.safe_load(file.read_text()) | {"pilot": {"blocks": 12}}
    file.write_text(yaml.safe_dump(document))
    done = fstune(state, address, "pilot", str(file))
    assert done.exit_code == 0, (done.output, done.exception)
    (campaign,) = store.campaigns()
    store.add_event(campaign.id, NewEvent(NOON, EventKind.PAUSE_REQUESTED, "asked to pause"))
    if before is CampaignState.FAILED:
        for one in (CampaignState.RUNNING, before):
            store.move_campaign(campaign.id, one, "", NewEvent(NOON, f"campaign-{one}", ""))
    assert fstune(state, address, "resume", campaign.id, "--queue").exit_code == 0
    measured_with = store.measured_with(campaign.id)
    other = aspect({"effects": []})
    store.set_measured_with(campaign.id, {"testbed": other})
    refused = fstune(state, address, "resume", campaign.id)
    assert "changed since campaign" in str(refused.exception)
    assert "still on the queue simulated, for a worker" in refused.output
    assert store.campaign(campaign.id).state is before
    assert [run.campaign for run in queue.runs()] == [campaign.id]
    assert end_without_run(store.campaign(campaign.id), store.events(campaign.id)) is None
    # Once it is put back, it is resumed and taken off.
    store.set_measured_with(campaign.id, measured_with)
    assert fstune(state, address, "resume", campaign.id).exit_code == 0
    assert queue.runs() == []


@pytest.mark.postgres
def test_a_campaign_that_is_queued_again_as_soon_as_it_is_paused_stays_on_the_queue(
    state: Path,
    address: str,
    store: Store,
    queue: Queue,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conduct = Runner.run

    def queued_again(runner: Runner) -> RunOutcome:
        outcome = conduct(runner)
        assert fstune(state, address, "resume", runner._id, "--queue").exit_code == 0
        return outcome

    document = yaml.safe_load(file.read_text()) | {"pilot": {"blocks": 3}}
    file.write_text(yaml.safe_dump(document))
    monkeypatch.setattr(Runner, "run", queued_again)
    done = fstune(state, address, "pilot", str(file))
    assert done.exit_code == 0, (done.output, done.exception)
    assert [run.campaign for run in queue.runs()] == [store.campaigns()[0].id]


@pytest.mark.postgres
def test_a_branch_is_queued(
    state: Path, address: str, store: Store, queue: Queue, file: Path
) -> None:
    document = yaml.safe_load(file.read_text())
    assert fstune(state, address, "run", str(file)).exit_code == 0
    (old,) = store.campaigns()
    file.write_text(yaml.safe_dump(document | {"name": "the next"}))
    done = fstune(state, address, "branch", old.id, str(file), "--queue")
    assert done.exit_code == 0, (done.output, done.exception)
    new = store.campaigns()[0]
    assert f"campaign {new.id} is on the queue simulated" in done.output
    assert (new.name, new.state) == ("the next", CampaignState.CREATED)
    assert {prior.origin.partition(":")[0] for prior in store.priors(new.id)} == {old.id}
    assert [run.campaign for run in queue.runs()] == [new.id]


@pytest.mark.postgres
def test_status_shows_workers(state: Path, address: str, queue: Queue) -> None:
    with queue._database.writer.begin() as connection:
        connection.exec_driver_sql("INSERT INTO fstune_queue.procrastinate_workers DEFAULT VALUES")
    queue.register(1, Holder("far", "boot:2", 4711, 9), ["simulated", "hosts@far"], 3, 60.0)
    status = fstune(state, address, "status").output
    assert "4711 on far" in status
    assert "simulated, hosts@far" in status
    assert "0 of 3" in status


@pytest.mark.parametrize("arguments", [("worker",), ("run", "FILE", "--queue")])
def test_a_file_cannot_be_shared(state: Path, file: Path, arguments: tuple[str, ...]) -> None:
    done = fstune(state, None, *(str(file) if word == "FILE" else word for word in arguments))
    assert isinstance(done.exception, SpecError)
    assert "PostgreSQL" in str(done.exception)
    with Store.open(state) as store:
        assert store.campaigns() == []


def test_a_worker_takes_what_it_can_reach(tmp_path: Path) -> None:
    cell = f"cell@{HOST}:{tmp_path}"
    assert queue_name("simulated", tmp_path) == "simulated"
    assert queue_name("cell", tmp_path) == cell
    assert queue_name("cell", tmp_path / "other") != cell
    assert queues_of(["cell,hosts", "hosts@far", "hosts"], tmp_path) == (
        cell,
        f"hosts@{HOST}",
        "hosts@far",
    )
    with pytest.raises(SpecError, match="--testbeds moon"):
        queues_of(["moon"], tmp_path)
    long = [queue_name("cell", tmp_path / ("x" * 200) / name) for name in "ab"]
    assert len({*long}) == 2
    assert max(map(len, long)) <= 128


@pytest.mark.slow
def test_commands_that_need_no_queue_do_not_import_it(root: Path) -> None:
    probe = "import sys, tuner.cli.app, api.app; print('procrastinate' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
