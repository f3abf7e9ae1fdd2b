"""Commands that are spoken with while they run: a line from them, a line to them.

Beside ``Connector.run``, which takes a command from its beginning to its end. Needed where several
hosts must do something at the same moment.
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

#: How long a command that says nothing more, or was killed, may take to be gone.
_KILL_PATIENCE_S = 10.0
_POLL_S = 0.005
_WITHOUT_REAPING = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Conversation(Protocol):
    """A command under way. ``listen`` and ``end`` are for one thread, the others for any."""

    def listen(self) -> str | None:
        """Wait for the next line on its standard error; None when it says nothing more."""
        ...

    def say(self, line: str) -> None:
        """Write a line to its standard input; nothing happens when it has ended."""
        ...

    def kill(self) -> None:
        """End it and all that it started, at once. Harmless when it has ended."""
        ...

    def end(self) -> CommandResult:
        """What it came to, after ``listen`` has returned None. Raises TransportError when it does
        not end.
        """
        ...


class SpeakingConnector(Connector, Protocol):
    """A host on which commands run long, and can be spoken with meanwhile."""

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """Run a command to its end, also across a lost connection where there is one to lose.
        ``run_id``: 1 to 100 letters, digits, - and _; no two runs may have the same.

        Raises CommandTimeout when it does not end in time, else TransportError when the host stays
        out of reach; the command may go on there then.
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
        """Start ``command`` in a session of its own; ``argv`` is what it is called in results."""
        self._host = host
        self._argv = tuple(argv)
        self._errors: list[str] = []
        self._reaping = threading.Lock()
        # A file, not a pipe: a long report must not hold the command up.
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
        # Whatever went wrong shows in how it ends.
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
        # Not reaped yet, so that its number still means it, and what it left behind can be ended.
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
