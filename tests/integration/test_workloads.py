"""Every packaged workload on a real cell: it runs, verifies, follows its plan and cleans up."""

from __future__ import annotations

import errno
import json
import time
from collections import Counter
from typing import Any

import pytest

import workloads
from deploy.cell import Cell
from deploy.cell.server import PARTITION
from tests.integration.engine_runs import SEED, Answer, Runner
from tuner.measure.workload import load_workload
from tuner.services.openafs.cache_manager import CacheManager
from workloads import Spec
from workloads.plan import plan_stage
from workloads.steps import Step

pytestmark = pytest.mark.cell

SCALES = {
    "database": 0.01,
    "eda": 0.02,
    "fileserver": 0.01,
    "git-tree-copy": 0.05,
    "iozone-cells": 0.02,
    "many-clients": 0.25,
    "mixed-use": 0.1,
    "office": 0.02,
    "postmark": 0.01,
    "source-tree": 0.005,
    "stream": 0.02,
    "swbuild": 0.01,
    "varmail": 0.02,
    "vda": 0.01,
    "webserver": 0.02,
}
#: With many processes afsd.fuse occasionally lets a call time out; a campaign repeats such a block,
#: so two more attempts are allowed here.
TRIES = 3
READING = ("read", "next-read", "random-read", "read-modify-write")


def test_no_packaged_workload_is_left_out() -> None:
    assert tuple(sorted(SCALES)) == workloads.packaged()


@pytest.mark.parametrize("name", SCALES)
def test_a_workload_does_what_was_planned_and_leaves_nothing(
    cell: Cell, cache_manager: CacheManager, name: str
) -> None:
    workload = load_workload(name, SCALES[name])
    spec = workload.spec
    runner = Runner.install(cell.clients[0], f"wl-{name}", json.loads(workload.document))
    timed: set[str] = set()
    for index, document in enumerate(every_stage(runner, spec, cache_manager)):
        plan = plan_stage(spec, index, SEED)
        assert document["operations_sha256"] == plan.operations_sha256
        steps = [[step for share in phase.steps for step in share] for phase in plan.phases]
        assert [phase["operations"] for phase in document["phases"]] == [len(s) for s in steps]
        read = [step for each in steps for step in each if step.operation in READING]
        assert document["verified"] == {
            "files": len(read),
            "bytes": sum(step.end - step.start for step in read),
        }
        for component, one in document["components"].items():
            mine = [
                step
                for phase, each in zip(plan.phases, steps, strict=True)
                if phase.phase.component == component
                for step in each
            ]
            done = {key: value["operations"] for key, value in one["by_operation"].items()}
            assert done == Counter(step.operation for step in mine)
            assert one["bytes"] == sum(moved(step) for step in mine)
            assert one["elapsed_s"] > 0
        timed |= set(document["components"])
    assert timed == {component.name for component in spec.components}
    assert runner.left() == []


def timed_out(answer: Answer) -> bool:
    """Whether a call to the fileserver timed out."""
    return bool(answer.document["error"]["errno"] == errno.ETIMEDOUT)


def every_stage(runner: Runner, spec: Spec, cache_manager: CacheManager) -> list[Any]:
    """Return the documents of all stages; start over when a call timed out."""
    for _ in range(TRIES):
        documents = []
        for stage in spec.stages:
            if stage.cache == "cold":
                cache_manager.make_cold()
            answer = runner.run(stage.name)
            if answer.status != 0:
                break
            documents.append(answer.document)
        else:
            return documents
        # The client may not know what a call that timed out has done on the server.
        cache_manager.make_cold()
        runner.clean()  # otherwise every later test finds its files
        if not timed_out(answer):
            break
    pytest.fail(str(answer.document["error"]))


def moved(step: Step) -> int:
    """The bytes that a step reads and writes."""
    if step.operation == "read-modify-write":
        return 2 * (step.end - step.start)
    writing = ("create", "create-empty", "rewrite", "append", "next-write", "random-write")
    return step.end - step.start if step.operation in (*READING, *writing) else 0


@pytest.mark.parametrize(
    ("processes", "files", "size"), [(1, 1, 32 << 20), (2, 200, 5000), (24, 24, 1 << 20)]
)
def test_a_stage_that_writes_ends_when_the_server_has_it_all(
    cell: Cell, processes: int, files: int, size: int
) -> None:
    spec = writing_spec(processes, files, size)
    runner = Runner.install(cell.clients[0], "wl-stored", spec)
    at_once = []
    for _ in range(TRIES):
        before = stored_files(cell, size)
        answer = runner.run("write")
        at_once.append(stored_files(cell, size) - before)
        if answer.status == 0:
            # The thread of afsd.fuse that stores a file may wait for a processor even longer than
            # the engine waits for it; but the file is stored eventually.
            await_files(cell, size, before + files)
        runner.clean()
        if answer.status == 0 and at_once[-1] == files:
            break
        assert answer.status == 0 or timed_out(answer), answer.document
    assert files in at_once, at_once
    assert runner.left() == []


def await_files(cell: Cell, size: int, count: int) -> None:
    deadline = time.monotonic() + 60.0
    while (now := stored_files(cell, size)) != count:
        assert time.monotonic() < deadline, now
        time.sleep(0.05)


def writing_spec(processes: int, files: int, size: int) -> dict[str, Any]:
    """Return a spec in which files of one size are written in one stage and removed in another."""
    few = {
        "files": files,
        "directories": min(files, processes),
        "size": {"distribution": "fixed", "bytes": size},
        "record_bytes": 1 << 20,
    }
    return {
        "name": "stored",
        "description": "files of one size",
        "processes": processes,
        "wall_clock_limit_s": 60,
        "filesets": {"few": few},
        "stages": [
            {
                "name": "write",
                "cache": "as-is",
                "phases": [
                    {"operation": "mkdir", "fileset": "few"},
                    {"operation": "create", "fileset": "few", "component": "write"},
                ],
            },
            {
                "name": "remove",
                "cache": "as-is",
                "phases": [{"operation": "unlink", "fileset": "few", "component": "remove"}],
            },
        ],
        "weights": {"write": 0.5, "remove": 0.5},
    }


def stored_files(cell: Cell, size: int) -> int:
    """The number of files of that size on the server's partition."""
    return len(cell.server.check(["find", PARTITION, "-type", "f", "-size", f"{size}c"]).split())
