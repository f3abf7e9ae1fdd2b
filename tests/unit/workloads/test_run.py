"""Whole runs of the engine: the document, the exit status, and what is left behind."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workloads
from tests.unit.workloads.conftest import Engine
from workloads.plan import plan_stage
from workloads.spec import parse
from workloads.version import content_sha256, sources

pytestmark = pytest.mark.slow

SYSTEM_PYTHON = Path("/usr/bin/python3")


@pytest.mark.parametrize(
    "python",
    [
        sys.executable,
        pytest.param(
            str(SYSTEM_PYTHON),
            marks=pytest.mark.skipif(not SYSTEM_PYTHON.exists(), reason="no system python3"),
        ),
    ],
)
def test_three_stages_from_nothing_to_nothing(
    engine: Callable[..., Engine], pyz: Path, mapping: dict[str, Any], python: str
) -> None:
    """From the zipapp itself, like the next test; the others run its contents."""
    own = replace(engine(), program=pyz, python=python)
    total = sum(fileset.total_bytes for fileset in parse(mapping).filesets)
    small = total - 5_000_001

    write = own.run("write")
    assert (write.status, write.stderr) == (0, "")
    assert set(write.document["components"]) == {"stream", "write"}
    assert write.document["components"]["stream"]["bytes"] == 5_000_001
    assert write.document["components"]["stream"]["operations"] == 1
    assert write.document["components"]["write"]["bytes"] == small
    assert write.document["components"]["write"]["operations"] == 23
    assert write.document["verified"] == {"files": 0, "bytes": 0}
    assert sum(path.is_file() for path in own.root.rglob("[f]*")) == 21

    read = own.run("read")
    assert read.status == 0
    assert read.document["components"]["meta"]["operations"] == 2 * 3 + 20 + 20
    assert read.document["components"]["read"]["bytes"] == 2 * small + 5_000_001
    assert read.document["verified"] == {"files": 41, "bytes": 2 * small + 5_000_001}

    change = own.run("change")
    assert change.status == 0
    assert change.document["components"]["delete"]["operations"] == 20 + 20 + 3
    assert change.document["verified"] == {"files": 40, "bytes": 2 * small}
    assert list(own.directory.iterdir()) == []


def test_the_document_says_what_ran(
    engine: Callable[..., Engine], pyz: Path, mapping: dict[str, Any]
) -> None:
    document = replace(engine(), program=pyz).run("write", seed=9).document
    spec = parse(mapping)
    assert document["ok"] is True
    assert document["engine"] == {
        "version": workloads.ENGINE_VERSION,
        "sha256": content_sha256(sources()),
    }
    assert document["spec"] == {
        "name": "every-operation",
        "sha256": spec.sha256,
        "scaled_by": 1.0,
    }
    assert (document["run_id"], document["seed"], document["stage"]) == ("run.1", 9, "write")
    assert document["operations_sha256"] == plan_stage(spec, 0, 9).operations_sha256
    assert document["cpu_s"] > 0
    for component in document["components"].values():
        latency = component["latency"]
        assert 0 < latency["p50_s"] <= latency["p95_s"] <= latency["p99_s"] <= latency["max_s"]
        assert latency["max_s"] <= component["elapsed_s"]
        assert "p99_9_s" not in latency


def test_the_slowest_in_a_thousand_needs_ten_thousand_operations(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    mapping["stages"][1]["phases"][1]["passes"] = 500
    own = engine()
    assert own.run("write").status == 0
    components = own.run("read").document["components"]
    assert components["meta"]["operations"] > 10_000
    latency = components["meta"]["latency"]
    assert latency["p99_s"] <= latency["p99_9_s"] <= latency["max_s"]
    assert "p99_9_s" not in components["read"]["latency"]


def test_progress_is_a_line_a_phase_on_standard_error(engine: Callable[..., Engine]) -> None:
    lines = engine().run("write", "--progress").stderr.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("write: stream: create big: 1 operations in ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "required"),
        (("run", "{spec}", "--dir", "{dir}", "--run-id", "a", "--seed", "1"), "needs --stage"),
        (
            ("run", "{spec}", "--dir", "{dir}", "--run-id", "a", "--seed", "1", "--stage", "x"),
            "has no stage 'x'; its stages: write, read, change",
        ),
        (("run", "{spec}", "--dir", "{dir}", "--run-id", "../a", "--seed", "1"), "--run-id"),
        (("clean", "--dir", "{dir}", "--run-id", "a/b"), "--run-id"),
        (("run", "{spec}", "--dir", "{dir}", "--run-id", "a", "--seed", "-1"), "--seed"),
        (("run", "no.json", "--dir", "{dir}", "--run-id", "a", "--seed", "1"), "no file 'no.json'"),
        (("run", "{bad}", "--dir", "{dir}", "--run-id", "a", "--seed", "1"), "stages: is missing"),
        (("run", "{broken}", "--dir", "{dir}", "--run-id", "a", "--seed", "1"), "not JSON"),
    ],
)
def test_an_invalid_command_is_distinguished_from_a_failed_workload(
    engine: Callable[..., Engine],
    tmp_path: Path,
    mapping: dict[str, Any],
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    own = engine()
    del mapping["stages"]
    (tmp_path / "bad.json").write_text(json.dumps(mapping))
    (tmp_path / "broken.json").write_text("{")
    places = {
        "spec": own.spec,
        "dir": own.directory,
        "bad": tmp_path / "bad.json",
        "broken": tmp_path / "broken.json",
    }
    done = subprocess.run(
        [sys.executable, str(own.program), *(word.format(**places) for word in arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert complaint in done.stderr
    assert list(own.directory.iterdir()) == []


def test_a_packaged_spec_runs_by_name_where_yaml_can_be_read(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workloads", "run", "mixed-use", "--seed", "1"]
    place = ["--dir", str(tmp_path), "--run-id", "a"]
    for stage in ("write", "read"):
        subprocess.run([*command, *place, "--stage", stage], check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_name_gets_one(engine: Callable[..., Engine]) -> None:
    own = engine()
    command = [sys.executable, str(own.program), "run", str(own.spec), "--stage", "write"]
    command += ["--dir", str(own.directory), "--seed", "1"]
    names = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        names.append(json.loads(done.stdout)["run_id"])
    assert names[0] != names[1]
    assert {p.name for p in own.directory.iterdir()} == {f"fstune-{name}" for name in names}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_without_a_name_removes_its_files_when_it_is_stopped(
    engine: Callable[..., Engine], mapping: dict[str, Any], number: int
) -> None:
    # Paced so slowly that it cannot finish during the test.
    stage = copy.deepcopy(mapping["stages"][0])
    stage["phases"][-1]["rate_per_s"] = 0.5
    own = engine(stages=[stage], weights={"stream": 0.5, "write": 0.5})
    command = [sys.executable, str(own.program), "run", str(own.spec), "--progress"]
    command += ["--dir", str(own.directory), "--seed", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while not [path for path in own.directory.glob("fstune-*/**/f*") if path.is_file()]:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert json.loads(output)["error"]["kind"] == "interrupted"
    assert list(own.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run-id", "a/b"), "run id 'a/b': 1 to 64 letters"),
        (("--seed", "-1"), "'-1' is not a whole number from 0 to 2^64-1"),
        (("--scale", "nan"), "'nan' is not a number from 1e-06 to 1000000"),
        (("--start-at", "nan"), "'nan' is not a number from 0"),
        (("--start-at", "99999999999"), "'99999999999' is not a number from 0"),
    ],
)
def test_a_wrong_option_says_what_is_right(
    engine: Callable[..., Engine], words: tuple[str, ...], message: str
) -> None:
    answer = engine().run("write", *words)
    assert answer.status == 2
    assert message in answer.stderr


def test_an_ambiguous_or_too_deep_spec_is_refused(engine: Callable[..., Engine]) -> None:
    own = engine()
    for text, message in (
        ('{"name": "a", "name": "b"}', "'name' is given twice"),
        ("[" * 99999, "deep"),
    ):
        own.spec.write_text(text)
        answer = own.run("write")
        assert answer.status == 2
        assert message in answer.stderr
        assert answer.stderr.count("\n") == 1


def test_a_timed_phase_without_an_operation_is_no_time(engine: Callable[..., Engine]) -> None:
    """Which files a mix leaves is only known once its steps are drawn."""
    files = {"fileset": "small"}
    phases = [
        {"operation": "mkdir", **files},
        {"operation": "create", **files, "component": "write"},
        {"operation": "mix", **files, "operations": 8, "choose": {"unlink": 1}},
        {"operation": "read", **files, "component": "read"},
    ]
    stages = [{"name": "write", "cache": "as-is", "phases": phases}]
    size = {"distribution": "fixed", "bytes": 10}
    filesets = {"small": {"files": 8, "directories": 4, "size": size}}
    weights = {"write": 0.5, "read": 0.5}
    own = engine(stages=stages, weights=weights, filesets=filesets, processes=4)
    run = own.run("write")
    error = run.document["error"]
    assert (run.status, error["kind"], error["operation"]) == (3, "empty-phase", "read")
    assert error["message"] == "nothing is left to do for it, so that read has no time"
    assert not own.root.exists()
