"""Worker processes: forked, controlled over pipes, monitored and always terminated.

Processes rather than threads: one busy thread would add its time slice to the latency of all
others. Plain ``fork`` and pipes rather than a pool: a worker stuck in a system call on a dead
filesystem cannot even be killed, and must not block this process or the reader of its output.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from workloads.failure import Failure, WorkloadFailure

try:
    import ctypes
except ImportError:  # some builds of Python lack it
    ctypes = None  # type: ignore[assignment]

Request = tuple[str, int]
Serve = Callable[[int, "Connection[Any, Any]"], None]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that stop a run."""

_PR_SET_PDEATHSIG = 1
_IDLE_PATIENCE_S = 0.1
_PATIENCE_S = 2.0
_NAP_S = 0.002


class Crew:
    """``count`` workers, each running ``serve(number, connection)`` in its own process.

    A context manager that terminates every worker on exit. ``deadline`` is a ``time.monotonic``
    value; ``where`` is the path reported in failures of the crew itself. The kernel kills the
    workers when the thread that creates the crew ends, however it ends.
    """

    def __init__(self, count: int, serve: Serve, deadline: float, where: str) -> None:
        self._deadline = deadline
        self._where = where
        self._pids: dict[int, int] = {}
        pipes = [Pipe() for _ in range(count)]
        self._connections = [ours for ours, _ in pipes]
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            # A handler that raised between the fork and recording the PID would lose a worker.
            with _hold_signals():
                parent = os.getpid()
                for number, (_, theirs) in enumerate(pipes):
                    pid = os.fork()
                    if pid == 0:
                        others = [end for pair in pipes for end in pair if end is not theirs]
                        _become_worker(serve, number, theirs, others, parent)
                    self._pids[number] = pid
        except BaseException:
            self.end()
            raise
        finally:
            for _, theirs in pipes:
                theirs.close()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def ask(self, request: Request, operation: str, count: int | None = None) -> Sequence[object]:
        """Send the request to the first ``count`` workers (default: all); return their answers.

        Raises WorkloadFailure if a worker answers with a Failure or dies, or the deadline passes;
        in the latter two cases the failure names ``operation``.
        """
        connections = self._connections[:count]
        answers: dict[int, object] = {}
        numbers = {id(connection): number for number, connection in enumerate(connections)}
        for number, connection in enumerate(connections):
            try:
                connection.send(request)
            except OSError:
                raise self._death(number, operation) from None
        while len(answers) < len(connections):
            pending = [link for link in connections if numbers[id(link)] not in answers]
            ready = wait(pending, max(0.0, self._deadline - time.monotonic()))
            if not ready:
                raise self._failure(
                    "wall-clock-limit", operation, "not done within the spec's wall_clock_limit_s"
                )
            for connection in pending:
                if connection not in ready:
                    continue
                number = numbers[id(connection)]
                try:
                    answer = connection.recv()
                except (EOFError, OSError):
                    raise self._death(number, operation) from None
                if isinstance(answer, Failure):
                    raise WorkloadFailure(answer)
                answers[number] = answer
        return [answers[number] for number in range(len(connections))]

    def end(self) -> None:
        """Terminate every worker: close its pipe, then SIGTERM, then SIGKILL, then give up."""
        with _hold_signals():
            for connection in self._connections:
                connection.close()
            # An idle worker exits at once when its pipe closes; a busy one needs the signal.
            self._reap(_IDLE_PATIENCE_S)
            for number in (signal.SIGTERM, signal.SIGKILL):
                for pid in self._pids.values():
                    os.kill(pid, number)
                self._reap(_PATIENCE_S)

    def _reap(self, patience_s: float) -> None:
        patience_ends = time.monotonic() + patience_s
        while True:
            for number, pid in list(self._pids.items()):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self._pids[number]
            if not self._pids or time.monotonic() > patience_ends:
                return
            time.sleep(_NAP_S)

    def _death(self, number: int, operation: str) -> WorkloadFailure:
        how = "was ended"
        pid = self._pids[number]
        patience_ends = time.monotonic() + _PATIENCE_S
        while time.monotonic() < patience_ends:
            is_over, status = os.waitpid(pid, os.WNOHANG)
            if is_over:
                del self._pids[number]
                how = (
                    f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
                    if os.WIFSIGNALED(status)
                    else f"exited with status {os.WEXITSTATUS(status)}"
                )
                break
            time.sleep(_NAP_S)
        return self._failure("worker-died", operation, f"worker {number} {how}")

    def _failure(self, kind: str, operation: str, message: str) -> WorkloadFailure:
        return WorkloadFailure(Failure(kind, operation, self._where, None, message))


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Block the stop signals; they are delivered afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent is killed. A busy worker does not read its
    pipe, and would write until its phase ends.
    """
    if ctypes is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # it was killed before that
        os._exit(1)


def _become_worker(
    serve: Serve,
    number: int,
    connection: Connection[Any, Any],
    others: list[Connection[Any, Any]],
    parent: int,
) -> None:
    """Run the worker and exit the process; never returns."""
    status = 1
    try:
        _end_with(parent)
        # Ctrl-C and a hang-up reach the whole process group, but terminating the workers is up to
        # the parent, which uses SIGTERM.
        for stop in STOP_SIGNALS:
            signal.signal(stop, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        # If left open, another worker's pipe end would hide that worker's death, and the standard
        # streams would keep the reader of our output waiting for a worker that cannot be killed.
        for other in others:
            other.close()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        # A garbage collection during a phase would be counted as filesystem latency.
        gc.disable()
        serve(number, connection)
        status = 0
    finally:
        os._exit(status)
