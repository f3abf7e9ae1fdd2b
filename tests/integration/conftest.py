"""One private cell for all tests that need one, and ways to find what a cell leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import search_spaces
from deploy.cell import Cell, Cells, CellSpec, Node
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.process import ProcessId
from tests.waiting import wait_for
from tuner.hosts.node import SupervisedNode
from tuner.hosts.node_supervisor import NodeSupervisors
from tuner.services.openafs.bosserver import FileserverPlace
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.cell import FUSE_PLACE, RESTORE
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.fuse import PROGRAM, FuseClient

PLACE = FileserverPlace(SERVER_ADDRESS, RESTORE)
BOS_CONFIG = Path("etc/BosConfig")
#: Several processes may run tests concurrently; each has its own shared cell.
SHARED = "shared" + os.environ.get("PYTEST_XDIST_WORKER", "")
NAMESPACES = ("mnt", "net", "pid", "ipc", "uts")


@dataclass(frozen=True)
class Trace:
    """A cell's traces in the kernel: processes (including zombies) and namespaces."""

    directory: str
    processes: frozenset[tuple[int, str]]
    namespaces: frozenset[str]

    @classmethod
    def of(cls, cell: Cell) -> Trace:
        inits = {node.init.pid for node in cell.nodes}
        spaces = {link for pid in inits for link in namespaces(pid)}
        starters = {node.starter.pid for node in cell.nodes}
        inside = {pid for pid in every_process() if namespaces(pid) & spaces}
        processes = {(pid, start) for pid in inside | starters if (start := started(pid))}
        directory = str(cell.server.directory.parent)
        return cls(directory, frozenset(processes), frozenset(spaces))

    def left(self) -> list[str]:
        """What still exists, except in other cells, which may reuse the numbers of namespaces."""
        remaining = self.running()
        pids = [pid for pid in every_process() if not self._is_of_another(pid)]
        spaces = {link for pid in pids for link in namespaces(pid)}
        return remaining + sorted(spaces & self.namespaces)

    def _is_of_another(self, pid: int) -> bool:
        """Whether a process belongs to a cell that another test process has brought up."""
        try:
            mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            return False
        return "/cells/" in mounts and f"{self.directory}/" not in mounts

    def running(self) -> list[str]:
        return [f"process {pid}" for pid, start in self.processes if started(pid) == start]

    def is_gone(self) -> bool:
        """Whether nothing is left; waits because reaping ended processes may take a moment."""
        deadline = time.monotonic() + 60.0
        while self.left():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def every_process() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def namespaces(pid: int) -> frozenset[str]:
    try:
        return frozenset(os.readlink(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES)
    except OSError:
        return frozenset()


def started(pid: int) -> str:
    """When a process started, zombie or not; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def mounts_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(directory) in line]


@pytest.fixture(scope="session")
def state(root: Path) -> Path:
    """The state directory of the tests' cells; packages stay there between test runs.

    Remains of a killed test run are removed when the cell with that name comes up again.
    """
    return root / "build" / "test-state"


@pytest.fixture(scope="session")
def cells(state: Path) -> Cells:
    return Cells(state)


@pytest.fixture(scope="session")
def shared_cell(cells: Cells) -> Iterator[None]:
    """That nothing remains of the shared cell, neither of an earlier test run nor of this one."""
    cells.down(SHARED)
    yield
    cells.down(SHARED)


@pytest.fixture
def cell(cells: Cells, shared_cell: None, request: pytest.FixtureRequest) -> Cell:
    """The shared cell; every test restores its state. The second try of a test has a new one, since
    a defect of OpenAFS may have left the old one in any state.
    """
    if getattr(request.node, "execution_count", 1) > 1:
        cells.down(SHARED)
    return cells.up(CellSpec(SHARED))


@pytest.fixture(scope="session")
def fstune(state: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line on the tests' state directory."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_to_end(command(*arguments), state)

    return run


def run_to_end(argv: list[str], state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env=environment(state),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from tuner.cli import main; main()", *arguments]


def environment(state: Path) -> dict[str, str]:
    return dict(os.environ, FSTUNE_STATE_DIR=str(state), PYTHONPATH=os.pathsep.join(sys.path))


_SUPERVISORS: dict[Node, NodeSupervisors] = {}


def connect(node: Node) -> SupervisedNode:
    """A connector to a node that is entered once for all tests, which takes most of the time of a
    command.
    """
    return SupervisedNode(node, _SUPERVISORS.setdefault(node, NodeSupervisors(node)))


@pytest.fixture(scope="session", autouse=True)
def supervisors_end() -> Iterator[None]:
    yield
    for supervisors in _SUPERVISORS.values():
        supervisors.close()


def attach_fileserver(cell: Cell) -> Fileserver:
    space = search_spaces.load("openafs-fileserver-1.8")
    return Fileserver.attach(connect(cell.server), PLACE, space)


def attach_cache_manager(cell: Cell) -> CacheManager:
    space = search_spaces.load("openafs-cache-manager-fuse-1.8")
    clients = [FuseClient.attach(connect(node), FUSE_PLACE) for node in cell.clients]
    return CacheManager.attach(clients, PROGRAM, space)


@pytest.fixture
def fileserver(cell: Cell) -> Iterator[Fileserver]:
    server = attach_fileserver(cell)
    yield server
    server.restore()


@pytest.fixture
def cache_manager(cell: Cell) -> Iterator[CacheManager]:
    manager = attach_cache_manager(cell)
    yield manager
    manager.restore()


@pytest.fixture
def unchanged(cell: Cell) -> Iterator[None]:
    """Check afterwards that the server's configuration file is unchanged and no other is left."""
    configuration = cell.server.directory / BOS_CONFIG
    before = configuration.read_bytes()
    yield
    assert configuration.read_bytes() == before
    assert list(cell.server.shared.glob("*.json")) == []


def command_lines(node: Node) -> list[tuple[int, list[str]]]:
    """Every process of a node with its command line, the oldest first; process ids are those of
    this host, which begin anew when they are used up and so do not tell which is older.
    """
    own = os.readlink(f"/proc/{node.init.pid}/ns/pid")
    lines = []
    for pid in every_process():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != own:
                continue
            words = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue  # it has exited
        pid_inside = int(status.partition("NSpid:")[2].partition("\n")[0].split()[-1])
        lines.append((pid_inside, pid, words))
    return [(pid, words) for _, pid, words in sorted(lines)]


def process_in(node: Node, program: str) -> ProcessId | None:
    """The oldest process of a node that runs ``program``, None if there is none."""
    for pid, words in command_lines(node):
        if pid != node.init.pid and any(word.endswith(program) for word in words[:2]):
            with suppress(ProcessLookupError):  # it has exited
                return ProcessId.of(pid)
    return None


def suspend(process: ProcessId) -> None:
    """Stop a process, and wait until none of its threads runs any more: one that waits for a disk
    delays the stop of all.
    """

    def is_stopped() -> bool:
        stats = [each.read_text() for each in Path(f"/proc/{process.pid}/task").glob("*/stat")]
        # The state follows the name, which may have parentheses.
        return bool(stats) and all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    os.kill(process.pid, signal.SIGSTOP)
    wait_for(is_stopped, f"the stop of process {process.pid}")
