"""A stage starts when it is released, and not before."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.workloads.conftest import Engine
from workloads import gate
from workloads.failure import WorkloadFailure


def _started(own: Engine, *more: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*own.arguments("write"), *more], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def _let_go(process: subprocess.Popen[str], ready: str) -> None:
    assert process.stdin is not None
    assert process.stderr is not None
    assert process.stderr.readline() == f"ready {ready}\n"
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.slow
def test_a_stage_waits_for_a_line(engine: Callable[..., Engine]) -> None:
    own = engine()
    with _started(own, "--gate", "stage") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready write\n"
        # The run directory exists, but nothing of the first phase.
        assert [path.name for path in own.root.iterdir()] == [".fstune-run.json"]
        output, _ = process.communicate("go\n", timeout=60)
    assert json.loads(output)["ok"] is True


@pytest.mark.slow
def test_phases_of_several_clients_can_be_synchronized(
    engine: Callable[..., Engine], tmp_path: Path
) -> None:
    one = engine()
    (tmp_path / "other").mkdir()
    other = Engine(one.program, one.spec, tmp_path / "other")
    with _started(one, "--gate", "phase") as first, _started(other, "--gate", "phase") as second:
        for phase in range(4):
            for process in (first, second):
                _let_go(process, f"write {phase}")
        for process in (first, second):
            output, _ = process.communicate(timeout=60)
            assert json.loads(output)["ok"] is True


@pytest.mark.slow
def test_without_a_word_the_run_is_void(engine: Callable[..., Engine]) -> None:
    own = engine()
    with _started(own, "--gate", "stage") as process:
        output, _ = process.communicate("", timeout=60)
    assert process.returncode == 3
    error = json.loads(output)["error"]
    assert (error["kind"], error["message"]) == ("start-gate", "standard input ended")
    assert own.clean().document["removed"] is True


@pytest.mark.slow
def test_waiting_is_bounded_by_the_wall_clock_limit(engine: Callable[..., Engine]) -> None:
    own = engine(wall_clock_limit_s=0.5)
    with _started(own, "--gate", "stage") as process:
        process.wait(timeout=60)
        assert process.stdout is not None
        error = json.loads(process.stdout.read())["error"]
    assert error["kind"] in ("start-gate", "wall-clock-limit")


@pytest.mark.slow
def test_a_start_time_is_observed(engine: Callable[..., Engine]) -> None:
    own = engine()
    for ahead_s in (1.5, 10.0, 40.0):
        moment = time.time() + ahead_s
        answer = own.run("write", "--start-at", f"{moment:.3f}")
        if answer.status == 0:
            break
        # It was not ready in time.
        assert answer.document["error"]["kind"] == "start-gate"
        own.clean()
    assert answer.status == 0
    assert time.time() >= moment


@pytest.mark.slow
def test_a_moment_that_has_passed_voids_the_run(engine: Callable[..., Engine]) -> None:
    error = engine().run("write", "--start-at", "1000").document["error"]
    assert error["kind"] == "start-gate"
    assert "after the time to start" in error["message"]


def test_a_moment_beyond_the_deadline_is_not_waited_for() -> None:
    wait = gate.at(time.time() + 1000)
    with pytest.raises(WorkloadFailure, match="not within"):
        wait("write", time.monotonic() - 1)
