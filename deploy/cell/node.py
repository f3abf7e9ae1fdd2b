"""A node of a private cell: a host made of namespaces, with its own processes, network and files.

Owns starting, entering and stopping a node. All processes of a node are in the PID namespace of its
first process (``node_init.py``); killing that one kills all of them and releases every mount and
interface.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.cell.errors import CellError, CellTimeout
from deploy.cell.process import ProcessId

_INIT = Path(__file__).with_name("node_init.py")
_START_TIMEOUT_S = 10.0
#: Largest timeout the kernel accepts, in milliseconds.
LONGEST_POLL_MS = 2.0**31 - 1
#: Namespaces of a node, as options of unshare and nsenter.
_NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts")

#: Complete environment of every program in a node.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
}

#: Where a node sees the directory it shares with the host, used to exchange files.
SHARED = "/fstune"


@dataclass(frozen=True, slots=True)
class RawResult:
    """A completed command: its exit status (negative: the signal that killed it) and output."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Node:
    """A running node."""

    name: str
    directory: Path
    init: ProcessId
    starter: ProcessId

    @property
    def shared(self) -> Path:
        """Path on the host of the directory that the node sees as ``/fstune``."""
        return self.directory / "shared"

    def is_alive(self) -> bool:
        """Whether the node's first process is running."""
        return self.init.is_alive()

    def enter(self, argv: Sequence[str]) -> list[str]:
        """Return the argument list that runs ``argv`` inside the node."""
        return ["nsenter", f"--target={self.init.pid}", *_NAMESPACES, "--", *argv]

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes | None = None,
        timeout_s: float = 60.0,
    ) -> RawResult:
        """Run a command in the node and wait for it to exit.

        Raises CellTimeout if it takes longer than ``timeout_s`` (it is killed), CellError if the
        node is not running.
        """
        if not self.is_alive():
            raise CellError(f"node {self.name} is not running; bring the cell up again")
        try:
            return run_to_end(self.enter(argv), input, timeout_s, ENVIRONMENT)
        except TimeoutError:
            message = f"{self.name}: {' '.join(argv[:3])}: not finished after {timeout_s:g} s"
            raise CellTimeout(message) from None

    def check(self, argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
        """Run a command and return its standard output. Raises CellError if it fails."""
        result = self.run(argv, timeout_s=timeout_s)
        if result.status != 0:
            output = (result.stderr or result.stdout).decode(errors="replace").strip()
            raise CellError(
                f"{self.name}: {' '.join(argv[:3])}: exit status {result.status}: {output}"
            )
        return result.stdout.decode(errors="replace")

    def stop(self) -> None:
        """Kill every process of the node. Does nothing if the node is no longer running."""
        for process in (self.init, self.starter):
            if not process.kill():
                raise CellError(
                    f"process {process.pid} of node {self.name} does not die; the kernel holds it"
                )


def run_to_end(
    argv: Sequence[str], input: bytes | None, timeout_s: float, environment: Mapping[str, str]
) -> RawResult:
    """Run a command in its own session, so that the terminal's Ctrl-C does not reach it.

    Output goes to files rather than pipes, so that a daemon that keeps its descriptors open does
    not block us. After ``timeout_s`` the whole process group is killed and TimeoutError is raised.
    The group is also killed on any other exception, in particular Ctrl-C.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryFile() as inp,
    ):
        inp.write(input or b"")
        inp.seek(0)
        process = subprocess.Popen(
            argv, stdin=inp, stdout=out, stderr=err, env=dict(environment), start_new_session=True
        )
        try:
            status = _status_of(process, timeout_s)
        except BaseException as problem:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(problem, TimeoutError):
                raise TimeoutError(
                    f"not finished after {timeout_s:g} s: {' '.join(argv)}"
                ) from None
            raise
        out.seek(0)
        err.seek(0)
        return RawResult(status, out.read(), err.read())


def _status_of(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Wait for a process and return its exit status without delay. Raises TimeoutError.

    ``Popen.wait`` with a timeout polls, and notices the exit up to 50 ms late.
    """
    try:
        end = os.pidfd_open(process.pid)
    except OSError:  # a kernel before 5.3, or a container that forbids it
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        if not poll.poll(min(timeout_s * 1000.0, LONGEST_POLL_MS)):
            raise TimeoutError
    finally:
        os.close(end)
    return process.wait()


def processes_below(directory: Path) -> list[ProcessId]:
    """The first processes and starters of all nodes with files below ``directory``.

    They are identified by their command lines, for use when the cell's record is lost.
    """
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # A process whose command line cannot be read or parsed is not one of ours. Any user may
        # start one with any arguments, such as JSON that is nested too deeply.
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            *_, script, document = (entry / "cmdline").read_text().rstrip("\0").split("\0")
            if not script.endswith(_INIT.name):
                continue
            if Path(json.loads(document)["root"]).is_relative_to(directory):
                processes.append(ProcessId.of(int(entry.name)))
    return processes


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Layout of a node to start: its name, its directory on the host, and its file tree."""

    name: str
    directory: Path
    #: Package trees overlaid on the host's files, topmost first.
    packages: tuple[Path, ...]
    #: Path of a directory or file inside the node -> its source on the host.
    binds: Mapping[str, Path]
    #: In-memory directories inside the node, initially empty.
    memory: tuple[str, ...] = ()
    #: Whether it has its own network; otherwise it uses the host's, to download files.
    own_network: bool = True


@dataclass(frozen=True, slots=True)
class NodeAdditions:
    """Additions to the standard layout of a node.

    ``packages``: trees overlaid on its files. ``binds``: path inside -> path on the host.
    ``memory``: in-memory directories, initially empty.
    """

    packages: tuple[Path, ...] = ()
    binds: Mapping[str, Path] = field(default_factory=dict)
    memory: tuple[str, ...] = ()


class StartingNode:
    """A node whose first process exists but waits for ``proceed``.

    This lets the caller record the process first. A crash in between leaves no unrecorded process
    behind, because the waiting process ends with its starter.
    """

    def __init__(self, plan: NodePlan) -> None:
        root = plan.directory / "root"
        for directory in (root, plan.directory / "shared"):
            directory.mkdir(parents=True, exist_ok=True)
        document = {
            "root": str(root),
            "packages": [str(tree) for tree in plan.packages],
            "hostname": plan.name,
            "binds": [[str(source), inside] for inside, source in plan.binds.items()],
            "memory": list(plan.memory),
        }
        self._log = plan.directory / "init.log"
        own = [kind for kind in _NAMESPACES if plan.own_network or kind != "--net"]
        # By default unshare would cut off unmounts on the host, which then kept its disks busy.
        command = ["unshare", *own, "--propagation=slave", "--fork", "--kill-child=SIGKILL", "--"]
        command += [sys.executable, "-I", "-S", str(_INIT), json.dumps(document)]
        with self._log.open("wb") as log:
            self._starter = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        init = int(self._answer())
        self.node = Node(
            plan.name, plan.directory, ProcessId.of(init), ProcessId.of(self._starter.pid)
        )

    def proceed(self) -> Node:
        """Let the first process build the node, and return it when ready. Raises CellError."""
        assert self._starter.stdin is not None
        self._starter.stdin.write(b"go\n")
        self._starter.stdin.close()
        self._answer()
        assert self._starter.stdout is not None
        self._starter.stdout.close()
        # The starter outlives us; stopping the node kills it by its recorded identity.
        self._starter.returncode = 0
        return self.node

    def _answer(self) -> bytes:
        assert self._starter.stdout is not None
        descriptor = self._starter.stdout.fileno()
        deadline = time.monotonic() + _START_TIMEOUT_S
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select(
                [descriptor], [], [], max(0.0, deadline - time.monotonic())
            )
            more = os.read(descriptor, 1) if readable else b""
            if not more:
                self._starter.kill()
                self._starter.wait()
                log_lines = self._log.read_text(errors="replace").strip().splitlines()
                raise CellError(
                    f"a node does not start: {log_lines[-1] if log_lines else 'no answer from it'}"
                )
            line += more
        return line.strip()
