"""Faults on a real cell: each voids the run without a score, is named and leaves nothing behind."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from deploy.cell import Cell, Cells, CellSpec, Node
from deploy.cell.client import VOLUME_PATH
from deploy.cell.server import PARTITION, VOLUME
from tests.integration.conftest import attach_cache_manager, process_in
from tests.integration.engine_runs import Runner, engine_processes
from tests.waiting import wait_for

pytestmark = pytest.mark.cell

SIZE = 200_000
FILE = "few.d00001/f0000001"


@pytest.fixture(scope="module")
def pair(cells: Cells) -> Iterator[Cell]:
    """A cell with a second client that interferes."""
    cells.down("faults")
    yield cells.up(CellSpec("faults", clients=2))
    cells.down("faults")


def spec(*operations: str) -> dict[str, Any]:
    """Return a spec in which two processes write four files and use them in the next stage."""

    def stage(name: str, component: str, words: tuple[str, ...]) -> dict[str, Any]:
        phases = [{"operation": word, "fileset": "few", "component": component} for word in words]
        return {"name": name, "cache": "as-is", "phases": phases}

    fixed = {"distribution": "fixed", "bytes": SIZE}
    return {
        "name": "faults",
        "description": "a few files are written and used",
        "processes": 2,
        "wall_clock_limit_s": 60.0,
        "filesets": {
            "few": {"files": 4, "directories": 2, "size": fixed, "record_bytes": 65536},
        },
        "stages": [
            stage("write", "writing", ("mkdir", "create")),
            stage("use", "using", operations),
            stage("end", "ending", ("negative-stat",)),
        ],
        "weights": {"writing": 0.4, "using": 0.4, "ending": 0.2},
    }


def flip_a_byte(other: Node, path: str) -> None:
    place = ["bs=1", "seek=70000", "count=1", "conv=notrunc"]
    other.check(["sh", "-c", 'printf "\\125" | dd of="$@" 2>&1', "sh", path, *place])


def remove(other: Node, path: str) -> None:
    other.check(["rm", path])


def forbid(other: Node, path: str) -> None:
    other.check(["chmod", "0", path])


def cut(other: Node, path: str) -> None:
    other.check(["truncate", "--size=100000", path])


MEDDLING: dict[str, tuple[Callable[[Node, str], None], str, str, int | None]] = {
    "flipped byte": (flip_a_byte, "read", "mismatch", None),
    "vanished before a read": (remove, "read", "os-error", errno.ENOENT),
    "vanished before an append": (remove, "append", "os-error", errno.ENOENT),
    "vanished before a delete": (remove, "unlink", "os-error", errno.ENOENT),
    "permission denied": (forbid, "read", "os-error", errno.EACCES),
    "cut": (cut, "read", "short-read", None),
}


@pytest.mark.parametrize("what", MEDDLING)
def test_what_another_client_does_to_a_file_voids_the_run(pair: Cell, what: str) -> None:
    meddle, operation, kind, number = MEDDLING[what]
    runner = Runner.install(pair.clients[0], "meddling", spec(operation))
    path = f"{runner.root}/{FILE}"
    assert runner.run("write").status == 0
    meddle(pair.clients[1], path)
    answer = runner.run("use")
    runner.clean()
    assert answer.error == (kind, operation, path, number)
    assert runner.left() == []


@pytest.mark.parametrize(
    ("limit", "kind", "number"),
    [(100_000, "short-write", None), (131_072, "os-error", errno.EFBIG)],
)
def test_a_short_write_voids_the_run(pair: Cell, limit: int, kind: str, number: int | None) -> None:
    """The write that crosses the limit on a process's file size is short."""
    runner = Runner.install(pair.clients[0], "short", spec("read"))
    answer = runner.run("write", "prlimit", f"--fsize={limit}")
    runner.clean()
    error_kind, operation, path, error_number = answer.error
    assert (error_kind, operation, error_number) == (kind, "create", number)
    assert str(path).startswith(f"{runner.root}/few.d0000")
    assert runner.left() == []


@contextmanager
def small_quota(cell: Cell) -> Iterator[None]:
    def limit(most: int) -> None:
        # The volume server refuses while it or the salvager has the volume.
        command = ["vos", "setfields", VOLUME, "-localauth", "-maxquota", str(most)]
        wait_for(lambda: cell.server.run(command).status == 0, "the volume server")

    limit(100)
    try:
        yield
    finally:
        limit(0)


def used_kb(cell: Cell) -> int:
    """Return what the partition holds, once it stays the same: files just removed may be freed
    later, and would leave room for all of the data.
    """
    readings: list[str] = []
    for _ in range(100):
        readings.append(cell.server.check(["df", "-k", "--output=used", PARTITION]).split()[-1])
        if len(readings) >= 4 and len(set(readings[-4:])) == 1:
            return int(readings[-1])
        time.sleep(0.3)
    raise AssertionError(f"what {PARTITION} holds does not stay the same: {readings}")


@contextmanager
def full_partition(cell: Cell) -> Iterator[None]:
    resize = ["mount", "--options"]
    # Room for some of the data.
    size_kb = used_kb(cell) + SIZE // 2048
    cell.server.check([*resize, f"remount,size={size_kb}k", PARTITION])
    try:
        yield
    finally:
        cell.server.check([*resize, "remount,size=50%", PARTITION])


#: Kind, operation and errno of a failure, and a part of its message.
Fault = tuple[str, str, int | None, str]

OVER_QUOTA: Fault = ("os-error", "create", errno.EDQUOT, "Disk quota exceeded")
#: The server refuses the data, but this client reports nothing: close(2) has already succeeded.
NOT_STORED: Fault = ("short-write", "create", None, f"before byte {SIZE}: what was written was not")
#: Where the store was overtaken, what follows finds that nothing is there.
NOT_THERE: Fault = ("short-read", "read", None, "")


@pytest.mark.parametrize(
    ("full", "faults"),
    [(small_quota, [OVER_QUOTA]), (full_partition, [NOT_STORED, NOT_THERE])],
)
def test_a_full_volume_voids_the_run(
    pair: Cell, full: Callable[[Cell], AbstractContextManager[None]], faults: list[Fault]
) -> None:
    # One process: with two, it would vary which of them finds the volume full, and in which call.
    runner = Runner.install(pair.clients[0], "full", {**spec("read"), "processes": 1})
    make_cold = attach_cache_manager(pair).make_cold
    with full(pair):
        make_cold()
        answer = runner.run("write")
        if answer.status == 0:
            answer = runner.run("use")
    make_cold()
    runner.clean()
    kind, operation, path, number = answer.error
    message = answer.document["error"]["message"]
    assert any(
        (kind, operation, number) == fault[:3] and fault[3] in message for fault in faults
    ), answer.document["error"]
    assert str(path).startswith(f"{runner.root}/few.d0000")
    assert runner.left() == []


def test_a_killed_worker_voids_the_run(pair: Cell) -> None:
    runner = Runner.install(pair.clients[0], "killed", endless())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, "write")
        wait_for(lambda: workers(runner.node) != [], "the workers")
        os.kill(workers(runner.node)[0], signal.SIGKILL)
        answer = running.result()
    runner.clean()
    kind, operation, *rest = answer.error
    assert (kind, *rest) == ("worker-died", runner.root, None)
    assert operation in ("create", "stat")  # the last file may still be being closed
    assert answer.document["error"]["message"] == "worker 0 was killed by SIGKILL"
    assert runner.left() == []


def test_a_cache_manager_that_dies_voids_the_run(pair: Cell) -> None:
    cache_manager = attach_cache_manager(pair)
    runner = Runner.install(pair.clients[0], "dead", endless())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, "write")
        wait_for(lambda: workers(runner.node) != [], "the workers")
        manager = process_in(runner.node, "afsd.fuse")
        assert manager is not None
        assert manager.kill()
        answer = running.result()
    cache_manager.make_cold()
    runner.clean()
    kind, operation, path, number = answer.error
    assert kind == "os-error"
    assert operation in ("create", "stat")  # the last file may still be being closed
    assert str(path).startswith(f"{runner.root}/few.d0000")
    assert number in (errno.ENOTCONN, errno.ECONNABORTED)
    assert runner.left() == []


def endless() -> dict[str, Any]:
    """Return a spec whose first stage ends with slowly paced stats, for longer than any limit."""
    mapping = spec("read")
    leisure = {"operation": "stat", "fileset": "few", "passes": 1000, "rate_per_s": 40}
    mapping["stages"][0]["phases"].append({**leisure, "component": "writing"})
    return mapping


def workers(node: Node) -> list[int]:
    """Return both workers once all files have been written."""
    files = node.run(["find", VOLUME_PATH, "-name", "f*", "-size", f"{SIZE}c"]).stdout
    processes = engine_processes(node)
    return processes[1:] if len(processes) == 3 and len(files.split()) == 4 else []
