"""Runs commands on a host for fstune; sent once for many requests, and run by the host's python3.

Owns the host's side of ``exchange.py``, and runs that are detached from their requests. Python 3.9
or newer; it may import ``supervised_command``, which is sent along, and the standard library.

A request is one line of JSON on standard input, followed by the command's input; an answer is the
request's mark, one line of JSON, and the bytes of standard output and standard error. End of file
on standard input means that nobody is waiting any more: the command of a plain request is then
killed. As heartbeats, a newline is written periodically while a command runs, and in reply to an
empty line between two requests. Requests are served one after another.

A detached command has a directory named after its run. The request that creates the directory
starts the command; later ones attach to it, so a run is started only once however often it is
requested. Its keeper process holds a lock there while it lives, and stores the answer there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time
from typing import Any

from tuner.hosts.supervised_command import DEATH_S, Answer, Command, write_all

#: How often a run is polled: one in progress, and one that is being ended.
_LOOK_S, _TICK_S = 0.02, 0.05
_START_TICKS_FIELD = 19  # field 22 of proc(5) stat, counted after the command name

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Disconnected(Exception):
    """Nobody is waiting for the answer any more."""


class Client:
    """The requesting side: its request, whether it is still connected, and how to answer it."""

    def __init__(self, line: bytes) -> None:
        self.request: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
        length = self.request.get("input_bytes", -1)
        self.input = sys.stdin.buffer.read(max(0, length))
        if len(self.input) != length:
            raise Disconnected  # truncated request: nothing was done
        self._silent_since = time.monotonic()

    def check(self) -> None:
        """Raise Disconnected when the other side is gone; send it a heartbeat when due."""
        if select.select([0], [], [], 0)[0] and not os.read(0, 1):
            raise Disconnected
        if time.monotonic() - self._silent_since >= self.request["beat_s"]:
            self._silent_since = time.monotonic()
            _write(1, b"\n")

    def tell(self, answer: Answer) -> None:
        """Send the answer with the current boot identifier. Raises Disconnected."""
        header, out, err = answer
        full = ({**header, "boot_id": boot_id()}, out, err)
        _write(1, b"\n" + self.request["mark"].encode() + _packed(full))


def _write(descriptor: int, data: bytes) -> None:
    try:
        write_all(descriptor, data)
    except BrokenPipeError:
        raise Disconnected from None


def _packed(answer: Answer) -> bytes:
    header, out, err = answer
    lengths = {"stdout_bytes": len(out), "stderr_bytes": len(err)}
    return json.dumps(header | lengths).encode() + b"\n" + out + err


def boot_id() -> str:
    """The identifier of the current boot."""
    with open(BOOT_ID) as file:
        return file.read().strip()


class Run:
    """A detached command's directory: ``lock`` (held by the keeper), ``request``, ``process`` and
    ``answer``.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        run_id = client.request["run_id"]
        self._home = _home(client.request["directory"].format(uid=os.geteuid()), run_id)
        self._place = os.path.join(self._home, run_id)
        self._identity = {"argv": client.request["argv"], "boot_id": boot_id()}

    def attend(self) -> Answer:
        """Start the command unless the run exists; wait up to ``wait_s`` for its answer."""
        request = self._client.request
        if request["boot_id"] != self._identity["boot_id"]:
            return _only("rebooted")
        if not os.path.isdir(self._place):
            if request["known"]:
                return _only("unknown")
            self._start()
        try:
            return self._wait()
        except FileNotFoundError:
            if not os.path.isdir(self._place):
                return _only("unknown")  # somebody else got its answer and removed it
            self._end_process()
            return _only("lost")

    def _wait(self) -> Answer:
        """The answer, or ``running``. Raises FileNotFoundError when there will be none."""
        request = self._client.request
        document = json.loads(self._read("request"))
        if document["boot_id"] != request["boot_id"]:
            return _only("rebooted")
        if document["argv"] != request["argv"]:
            return _only("other")
        until = time.monotonic() + request["wait_s"]
        while self._is_kept():
            self._client.check()
            if time.monotonic() >= until:
                return _only("running")
            time.sleep(_LOOK_S)
        return _unpacked(self._read("answer"))

    def forget(self) -> Answer:
        """Kill the command if it still runs, and remove the run's directory."""
        if os.path.isdir(self._place):
            deadline = time.monotonic() + 2 * DEATH_S
            while self._of_now() and self._is_kept() and time.monotonic() < deadline:
                self._client.check()
                self._end_process()
                time.sleep(_TICK_S)
            # Renamed first: it disappears atomically for others still waiting for the answer.
            os.rename(self._place, aside := f"{self._place}.{os.getpid()}")
            _remove(aside)
        return _only("forgotten")

    def _start(self) -> None:
        # Created under another name and renamed, so that a run is never visible without its lock.
        # The rename fails if the run exists already: another request was first.
        fresh = f"{self._place}.{os.getpid()}"
        os.mkdir(fresh, 0o700)
        lock = os.open(os.path.join(fresh, "lock"), _OPEN_NEW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        _store(fresh, "request", json.dumps(self._identity).encode())
        try:
            os.rename(fresh, self._place)
        except OSError:
            _remove(fresh)
        else:
            _sync(self._home)
            if os.fork() == 0:
                self._keep()
        os.close(lock)

    def _keep(self) -> None:
        """In the child: act as the command's keeper, even if the connection is lost."""
        try:
            os.setsid()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            for descriptor in (0, 1, 2):
                os.dup2(os.open("/dev/null", os.O_RDWR), descriptor)
            command = Command(self._client.request, self._client.input)
            # With the start time too, since the process ID may be reused later.
            _store(self._place, "process", f"{command.pid} {_started(command.pid)}".encode())
            _store(self._place, "answer", _packed(command.finish(lambda: None)))
        finally:
            os._exit(0)

    def _is_kept(self) -> bool:
        with open(os.path.join(self._place, "lock")) as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        return True

    def _end_process(self) -> None:
        """Kill the command's group if it exists; its keeper then stores an answer."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid, started = self._read("process").split()
            if self._of_now() and _started(int(pid)) == started.decode():
                os.killpg(int(pid), signal.SIGKILL)

    def _of_now(self) -> bool:
        """Whether the run was started in the current boot."""
        return bool(json.loads(self._read("request"))["boot_id"] == self._identity["boot_id"])

    def _read(self, name: str) -> bytes:
        with open(os.path.join(self._place, name), "rb") as file:
            return file.read()


def _only(ending: str) -> Answer:
    return {"ended": ending, "status": 0, "dead": True}, b"", b""


def _unpacked(data: bytes) -> Answer:
    line, _, body = data.partition(b"\n")
    size = (header := json.loads(line))["stdout_bytes"]
    return header, body[:size], body[size:]


def _home(path: str, run_id: str) -> str:
    """A private directory, preferably that of the run; with a suffix if others took the name."""
    parent, name = os.path.split(path)
    candidates = (os.path.join(parent, one) for one in os.listdir(parent) if one.startswith(name))
    ours = sorted(filter(_own, candidates), key=lambda one: not os.path.isdir(f"{one}/{run_id}"))
    for new in () if ours else (path, f"{path}-{os.urandom(8).hex()}"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(new, 0o700)
            return new
    return ours[0] if ours else path


def _own(path: str) -> bool:
    """Whether the path is a directory of ours that nobody else can access."""
    with contextlib.suppress(FileNotFoundError):  # others may remove theirs at any moment
        mode, owner = (status := os.lstat(path)).st_mode, status.st_uid
        return stat.S_ISDIR(mode) and not mode & 0o077 and owner == os.geteuid()
    return False


def _store(directory: str, name: str, content: bytes) -> None:
    """Write a file atomically and durably."""
    path = os.path.join(directory, name)
    _write(descriptor := os.open(f"{path}.new", _OPEN_NEW, 0o600), content)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(f"{path}.new", path)
    _sync(directory)


def _remove(directory: str) -> None:
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)


def _sync(directory: str) -> None:
    os.fsync(descriptor := os.open(directory, os.O_RDONLY))
    os.close(descriptor)


def _started(pid: int) -> str:
    """Start time of a process in ticks since boot; "" if there is no such process."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[_START_TICKS_FIELD]
    return ""


def _answer(client: Client) -> Answer:
    kind = client.request["do"]
    try:
        if kind == "run":
            return Command(client.request, client.input).finish(client.check)
        if kind == "attend":
            return Run(client).attend()
        return Run(client).forget() if kind == "forget" else _only("greeted")
    except OSError as problem:
        return _only("failed")[0], b"", str(problem).encode()


def main() -> None:
    """Answer requests on standard input. Runs in /, so as not to keep a file system busy."""
    os.chdir("/")
    with contextlib.suppress(Disconnected):
        while line := sys.stdin.buffer.readline():
            if line == b"\n":
                _write(1, line)
                continue
            client = Client(line)
            client.tell(_answer(client))
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)  # a keeper that has ended
    os._exit(0)


if __name__ == "__main__":
    main()
