"""Supervisors in a node of a private cell, which run commands there.

Owns their life cycle: starting, reuse, detecting that one is gone, ending. They are the program
that hosts over SSH run too (``supervisor.py``). To enter the namespaces of a node anew for every
command would take longer than most commands do.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO

from deploy.cell import Node
from deploy.cell.node import ENVIRONMENT, LONGEST_POLL_MS
from tuner.errors import TransportError
from tuner.hosts.connector import program
from tuner.hosts.exchange import BOOTSTRAP, Answer, AnswerReader, Request
from tuner.hosts.quoting import refuse_null
from tuner.interruption import uninterrupted

_CHUNK_BYTES = 1 << 16
#: How much longer than a command its answer may take: the time to kill it, and to transfer output.
_GRACE_S = 30.0
#: How long a supervisor may take to kill its command and exit once its standard input is closed.
_EXIT_S = 10.0
#: Heartbeats are not needed: on the same machine, the end of a supervisor is noticed at once.
_NO_BEATS_S = 1e9
#: A fileserver's options are read back with three commands at once.
MOST_IDLE = 4
_NOISE_BYTES = 500
_NOT_RUNNING = "the node is not running; bring the cell up again"


def check_running(node: Node) -> None:
    """Raise TransportError when the node is not running."""
    if not node.is_alive():
        raise TransportError(f"{node.name}: {_NOT_RUNNING}")


class NodeSupervisors:
    """Run commands as root in one node, each supervisor one at a time; safe to use from several
    threads. If fstune is killed, so is the command that it waits for.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._idle: list[_Supervisor] = []

    def close(self) -> None:
        """End the supervisors; the next command starts another one."""
        with uninterrupted(), self._lock:
            while self._idle:
                self._idle.pop().close()

    def run(self, argv: Sequence[str], input: bytes, timeout_s: float) -> Answer:
        """Run a command to its end. It is killed on any exception, in particular Ctrl-C.

        Raises CommandTimeout, OutputTooLarge, or TransportError when the node is not running.
        """
        refuse_null(argv)
        fields = {"argv": list(argv), "timeout_s": timeout_s}
        what = f"{self._node.name}: {program(argv)}"
        with self._supervisor() as supervisor:
            request = Request("run", _NO_BEATS_S, fields, input)
            try:
                answer = supervisor.exchange(request, timeout_s)
            except ValueError as problem:
                raise TransportError(f"{what}: bad answer: {problem}") from problem
            if answer is None:
                raise TransportError(f"{what}: {self._why_no_answer(supervisor.noise())}")
        return answer.finished(self._node.name, argv, timeout_s)

    def _why_no_answer(self, noise: str) -> str:
        if not self._node.is_alive():
            return _NOT_RUNNING
        reason = noise or "it printed nothing"
        return f"the supervisor in the node was killed, or does not answer: {reason}"

    @contextlib.contextmanager
    def _supervisor(self) -> Iterator[_Supervisor]:
        """An idle supervisor, or a new one. It is kept if it is ready for another request after the
        body.
        """
        supervisor = None
        try:
            with uninterrupted():
                supervisor = self._idle_supervisor() or _Supervisor(self._node)
            yield supervisor
        finally:
            if supervisor is not None:
                with uninterrupted():
                    self._keep(supervisor)

    def _keep(self, supervisor: _Supervisor) -> None:
        with self._lock:
            keeps = supervisor.is_reusable and len(self._idle) < MOST_IDLE
            if keeps:
                self._idle.append(supervisor)
        if not keeps:
            supervisor.close()

    def _idle_supervisor(self) -> _Supervisor | None:
        with self._lock:
            while self._idle:
                supervisor = self._idle.pop()
                if supervisor.is_silent():
                    return supervisor
                supervisor.close()
        return None


class _Supervisor:
    """One supervisor in the node; it serves one request at a time.

    ``is_reusable``: it has answered every request so far.
    """

    def __init__(self, node: Node) -> None:
        """Raises TransportError when the node is not running."""
        check_running(node)
        self.is_reusable = True
        self._is_new = True
        self._process = subprocess.Popen(
            node.enter(BOOTSTRAP),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._errors = self._process.stderr
        os.set_blocking(self._requests.fileno(), False)
        os.set_blocking(self._errors.fileno(), False)

    def is_silent(self) -> bool:
        """Whether it waits for a request; otherwise it is gone, and its output ends."""
        return not _is_ready(self._answers, select.POLLIN, time.monotonic())

    def exchange(self, request: Request, limit_s: float) -> Answer | None:
        """Send a request that takes at most ``limit_s``; None when no answer will come.

        Raises ValueError for a bad answer.
        """
        self.is_reusable = False
        reader = AnswerReader()
        deadline = time.monotonic() + limit_s + _GRACE_S
        data = memoryview(request.encode(reader.mark, first=self._is_new))
        self._is_new = False
        with contextlib.suppress(BrokenPipeError):  # the end of its output says the same
            while data and _is_ready(self._requests, select.POLLOUT, deadline):
                data = data[os.write(self._requests.fileno(), data) :]
        while _is_ready(self._answers, select.POLLIN, deadline):
            received = os.read(self._answers.fileno(), _CHUNK_BYTES)
            if not received:
                break
            if (answer := reader.feed(received)) is not None:
                self.is_reusable = True
                return answer
        return None

    def noise(self) -> str:
        """The end of what it printed besides answers, such as why it could not start."""
        printed = (self._errors.read(_CHUNK_BYTES) or b"")[-_NOISE_BYTES:]
        return " ".join(printed.decode(errors="replace").split())

    def close(self) -> None:
        """End it, and first the command that it may be running."""
        self._requests.close()
        # It does not notice that while it waits until somebody reads a large answer.
        self._answers.close()
        try:
            self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            # Its process group: nsenter waits for a child that is in the node.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()


def _is_ready(stream: IO[bytes], event: int, deadline: float) -> bool:
    """Wait until a stream is ready for an event; False if it is not by ``deadline``."""
    poll = select.poll()
    poll.register(stream.fileno(), event)
    left_ms = 1000.0 * (deadline - time.monotonic())
    return bool(poll.poll(min(max(0.0, left_ms), LONGEST_POLL_MS)))
