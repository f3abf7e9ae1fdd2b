"""A worker that dies or hangs voids the run, and no process is left behind.

A FIFO in place of a file blocks a worker: opening it for writing returns once the worker has opened
it for reading; the worker then waits for data that never comes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.conftest import Engine
from workloads.crew import Crew, _become_worker
from workloads.failure import WorkloadFailure

pytestmark = pytest.mark.slow


@contextmanager
def _blocked_worker(own: Engine) -> Iterator[subprocess.Popen[str]]:
    """Yield the second stage's process with one of its workers blocked in a read."""
    assert own.run("write").status == 0
    (own.root / "big.d00000/f0000000").unlink()
    os.mkfifo(own.root / "big.d00000/f0000000")
    process = subprocess.Popen(
        own.arguments("read"), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        writer = os.open(own.root / "big.d00000/f0000000", os.O_WRONLY)
        try:
            yield process
        finally:
            os.close(writer)
    finally:
        process.kill()
        process.communicate()


def _error(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    # All workers were in their parent's session, so none is left.
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    error: dict[str, Any] = json.loads(output)["error"]
    return error


def _children(pid: int) -> list[int]:
    pids = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            pids.append(int(entry.parent.name))
    return pids


def test_a_killed_worker_voids_the_run(engine: Callable[..., Engine]) -> None:
    own = engine()
    with _blocked_worker(own) as process:
        workers = _children(process.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        error = _error(process)
    assert (error["kind"], error["operation"]) == ("worker-died", "read")
    assert error["path"] == str(own.root)
    assert "was killed by SIGKILL" in error["message"]


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_no_worker_outlives_an_engine_that_is_killed(engine: Callable[..., Engine]) -> None:
    own = engine()
    with _blocked_worker(own) as process:
        workers = _children(process.pid)
        assert len(workers) == 2
        process.kill()
        process.wait()
        patience_ends = time.monotonic() + 20.0
        while any(map(_is_running, workers)):
            assert time.monotonic() < patience_ends, "a worker goes on"
            time.sleep(0.01)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_worker_whose_parent_ended_before_it_began_does_nothing(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        _become_worker(lambda *_: (tmp_path / "begun").touch(), 0, Pipe()[0], [], os.getpid())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_wall_clock_limit_is_a_failure(engine: Callable[..., Engine]) -> None:
    own = engine(wall_clock_limit_s=0.001)
    answer = own.run("write")
    assert answer.status == 3
    # Which operation was running depends on the machine.
    error = answer.document["error"]
    assert error["kind"] == "wall-clock-limit"
    assert error["operation"]
    assert error["path"] == str(own.root)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_worker_that_hangs_is_ended_at_the_deadline(tmp_path: Path) -> None:
    def serve(number: int, connection: Any) -> None:
        (tmp_path / str(os.getpid())).touch()
        signal.pause()

    with Crew(2, serve, time.monotonic(), "/x") as crew:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        with pytest.raises(WorkloadFailure) as caught:
            crew.ask(("go", 0), "read")
    assert caught.value.failure.kind == "wall-clock-limit"
    assert caught.value.failure.operation == "read"
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_ends_the_workers_and_is_reported(
    engine: Callable[..., Engine], number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    own = engine()
    with _blocked_worker(own) as process:
        send(process.pid, number)
        error = _error(process)
    assert error["kind"] == "interrupted"
    assert number.name in error["message"]
    assert own.clean().document["removed"] is True


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_an_unforeseen_fault_of_a_worker_is_a_death_not_a_hang() -> None:
    def serve(number: int, connection: Any) -> None:
        connection.recv()
        if number == 1:
            os._exit(9)
        connection.send("here")

    with (
        Crew(2, serve, time.monotonic() + 60.0, "/x") as crew,
        pytest.raises(WorkloadFailure) as caught,
    ):
        crew.ask(("go", 0), "stat")
    assert caught.value.failure.kind == "worker-died"
    assert caught.value.failure.message == "worker 1 exited with status 9"
