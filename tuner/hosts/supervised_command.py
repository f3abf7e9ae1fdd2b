"""Runs one command on a host, for the supervisor that is sent there together with this module.

Starts the command in a session of its own, passes it its input, limits its output, kills its whole
process group when its time is up, and reports how it ended. Standard library only, Python 3.9 or
newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, TextIO, cast

#: The words before the path of a program that is run by the interpreter of the supervisor.
_PYTHON = ["python3", "-I", "-S"]
#: How often a running command's output is measured.
_TICK_S = 0.05
#: How long a killed command may take to disappear.
DEATH_S = 5.0
#: Appended to PATH, for accounts whose PATH lacks the directories of system programs.
_PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGHUP)
#: No descriptor of a supervisor is larger.
_MOST_DESCRIPTORS = 1024

#: Header (how the command ended, its exit status), standard output, standard error.
Answer = tuple[dict[str, Any], bytes, bytes]


class Command:
    """A running command. Its output goes to memory files: a daemon may keep a pipe open."""

    def __init__(self, request: dict[str, Any], data: bytes) -> None:
        self._limit_bytes: int = request["limit_bytes"]
        self._timeout_s: float = request["timeout_s"]
        with contextlib.ExitStack() as stack:

            def keep(descriptor: int) -> int:
                stack.callback(os.close, descriptor)
                return descriptor

            # SIGCHLD writes a byte to this pipe, which wakes the wait in ``finish``.
            self._woken, wake = map(keep, os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
            signal.signal(signal.SIGCHLD, lambda *_: None)
            stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(wake))
            self._inp, self._out, self._err = (keep(os.memfd_create("")) for _ in range(3))
            write_all(self._inp, data)
            os.lseek(self._inp, 0, os.SEEK_SET)
            for descriptor in (self._out, self._err):
                fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
            self.pid = self._start(request["argv"])
            self._release = stack.pop_all().close

    def _start(self, words: list[str]) -> int:
        """Start the command; if that fails, say why, as a shell does."""
        _set_environment()
        ends = (self._inp, self._out, self._err)
        if words[:3] == _PYTHON and (code := _program(words[3])) is not None:
            return _run_here(code, words[3:], ends)
        argv = [word.encode("utf-8", "surrogateescape") for word in words]
        to = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)]
        try:
            return os.posix_spawnp(  # a fork would copy this interpreter, which takes longer
                argv[0], argv, os.environ, file_actions=to, setsid=True, setsigdef=_RESET
            )
        except Exception as problem:
            missing = isinstance(problem, FileNotFoundError)
            os.write(self._err, argv[0] + f": {'not found' if missing else problem}\n".encode())
            if (pid := os.fork()) == 0:
                os._exit(127 if missing else 126)
            return pid

    def finish(self, check: Callable[[], None]) -> Answer:
        """Wait, once, for its end; kill it when it exceeds a limit, or when ``check`` raises."""
        try:
            return self._finish(check)
        finally:
            self._release()

    def _finish(self, check: Callable[[], None]) -> Answer:
        deadline = time.monotonic() + self._timeout_s
        ending = ""
        try:
            while (status := self._status()) is None:
                check()
                remaining_s = deadline - time.monotonic()
                ending = "timeout" if remaining_s <= 0 else "too-large" if self._too_large() else ""
                if ending:
                    break
                select.select([self._woken], [], [], min(_TICK_S, remaining_s))
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
        except BaseException:
            self._kill()
            raise
        if status is None:
            return {"ended": ending, "status": 0, "dead": self._kill()}, b"", b""
        if self._too_large():
            return {"ended": "too-large", "status": status, "dead": True}, b"", b""
        header = {"ended": "exit", "status": status, "dead": True}
        out, err = (os.pread(one, os.fstat(one).st_size, 0) for one in (self._out, self._err))
        return header, out, err

    def _status(self) -> int | None:
        """Exit status, or negative signal number; None while the command runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def _too_large(self) -> bool:
        sizes = [os.fstat(descriptor).st_size for descriptor in (self._out, self._err)]
        return max(sizes) > self._limit_bytes

    def _kill(self) -> bool:
        """Kill the process group; return whether the command is gone, not stuck in the kernel."""
        deadline = time.monotonic() + DEATH_S
        while time.monotonic() < deadline:
            for end in (os.killpg, os.kill):  # the group may not exist yet
                with contextlib.suppress(ProcessLookupError):
                    end(self.pid, signal.SIGKILL)
            if self._status() is not None:
                return True
            time.sleep(0.005)
        return False


def _set_environment() -> None:
    """Have English messages, and system programs in PATH, where commands are looked for."""
    path = os.environ.get("PATH", "").split(":")
    path += [place for place in _PROGRAMS if place not in path]
    os.environ.update(PATH=":".join(filter(None, path)), LANG="C", LC_ALL="C.UTF-8")
    os.environ.pop("LANGUAGE", None)  # LC_ALL overrides everything else


def _program(path: str) -> CodeType | None:
    """The code of a program; None if it cannot be read, which another interpreter explains."""
    if not path.startswith("/"):
        return None
    try:
        with open(path, "rb") as file:
            return _compiled(file.read(), path)
    except (OSError, SyntaxError, ValueError):
        return None


@functools.lru_cache(maxsize=8)
def _compiled(source: bytes, path: str) -> CodeType:
    return compile(source, path, "exec", dont_inherit=True)


def _run_here(code: CodeType, argv: list[str], ends: Sequence[int]) -> int:
    """Run a Python program as ``python3 -I -S`` does, in a copy of this interpreter: to start
    another one would take ten times as long. ``ends``: its standard input, output and error.

    Returns its process ID.
    """
    if (pid := os.fork()) != 0:
        return pid
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        for number, end in enumerate(ends):
            os.dup2(end, number)
        os.closerange(len(ends), _MOST_DESCRIPTORS)
        sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3), "rww")
        sys.argv = argv
        status = _status_of(code)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _stream(descriptor: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def _status_of(code: CodeType) -> int:
    """Run a program; return its exit status."""
    try:
        exec(code, {"__name__": "__main__", "__file__": sys.argv[0]})
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of this. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
