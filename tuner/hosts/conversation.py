"""Line-based conversations with commands while they run.

They complement ``Connector``, which runs a command from start to finish, and are needed where
several hosts must do something at the same moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

from tuner.errors import TransportError
from tuner.hosts.connector import CommandResult, Connector, decoded

#: How long a command may take to exit after closing its standard error or being killed.
_KILL_PATIENCE_S = 10.0
_POLL_S = 0.005
_WITHOUT_REAPING = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Conversation(Protocol):
    """A running command. ``listen`` and ``end`` are for one thread only, the others for any."""

    def listen(self) -> str | None:
        """Wait for the next line on its standard error; None at end of file."""
        ...

    def say(self, line: str) -> None:
        """Write a line to its standard input; does nothing when it has exited."""
        ...

    def kill(self) -> None:
        """Kill it and everything that it started. Harmless when it has exited."""
        ...

    def end(self) -> CommandResult:
        """Return its result, after ``listen`` has returned None. Raises TransportError when it
        does not exit.
        """
        ...


class SpeakingConnector(Connector, Protocol):
    """A host that also supports long-running commands and conversations with commands."""

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """Run a command to its end, even if the connection to the host is lost meanwhile.
        ``run_id``: 1 to 100 letters, digits, - and _; unique among runs.

        Raises CommandTimeout when it does not end in time, otherwise TransportError when the host
        stays unreachable; the command may then still be running there.
        """
        ...

    def converse(self, argv: Sequence[str]) -> Conversation:
        """Start a command. Raises TransportError when the host cannot be reached."""
        ...


class ProcessConversation:
    """A conversation with a process of this machine, such as one that enters a node."""

    def __init__(
        self, host: str, argv: Sequence[str], command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start ``command`` in a session of its own; results and errors show ``argv`` instead."""
        self._host = host
        self._argv = tuple(argv)
        self._errors: list[str] = []
        self._reaping = threading.Lock()
        # A file, not a pipe: a long report must not block the command.
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=self._out,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
        except BaseException:
            self._out.close()
            raise

    def listen(self) -> str | None:
        """See Conversation.listen."""
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        if not line:
            return None
        text = line.decode(errors="replace")
        self._errors.append(text)
        return text.rstrip("\n")

    def say(self, line: str) -> None:
        """See Conversation.say."""
        assert self._process.stdin is not None
        # If this fails, the result of the command shows why.
        with contextlib.suppress(OSError, ValueError):
            os.write(self._process.stdin.fileno(), f"{line}\n".encode())

    def kill(self) -> None:
        """See Conversation.kill."""
        with self._reaping:
            self._kill_group()

    def end(self) -> CommandResult:
        """See Conversation.end."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        deadline = time.monotonic() + _KILL_PATIENCE_S
        # Not reaped yet: its process group ID stays valid, so that leftover children can be killed.
        while os.waitid(os.P_PID, self._process.pid, _WITHOUT_REAPING) is None:
            if time.monotonic() > deadline:
                raise TransportError(f"{self._host}: {self._argv[0]} does not end")
            time.sleep(_POLL_S)
        with self._reaping:
            self._kill_group()
            status = self._process.wait()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stderr.close()
        with self._out as out:
            out.seek(0)
            errors = "".join(self._errors).encode()
            return decoded(self._host, self._argv, status, out.read(), errors)

    def _kill_group(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
