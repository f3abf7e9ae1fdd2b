"""A conversation with a command on a host that is reached over SSH.

The command is started directly, without a supervisor. It must exit when its standard input closes;
the commands used here do, since they wait for a line before they do anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import paramiko

from tuner.errors import TransportError
from tuner.hosts.connector import OUTPUT_LIMIT_BYTES, CommandResult, command_text, decoded, program
from tuner.interruption import uninterrupted

_END_PATIENCE_S = 10.0


class SshConversation:
    """See Conversation. ``closing``: closes the channel."""

    def __init__(
        self,
        host: str,
        argv: Sequence[str],
        channel: paramiko.Channel,
        closing: contextlib.ExitStack,
    ) -> None:
        self._host = host
        self._argv = tuple(argv)
        self._channel = channel
        self._closing = closing
        self._errors = channel.makefile_stderr("rb")
        self._lines: list[bytes] = []

    def listen(self) -> str | None:
        """See Conversation.listen."""
        try:
            line: bytes = self._errors.readline()
        except OSError:
            line = b""  # the connection is gone: ``end`` says so
        if not line:
            return None
        self._lines.append(line)
        return line.decode(errors="replace").rstrip("\n")

    def say(self, line: str) -> None:
        """See Conversation.say."""
        with contextlib.suppress(OSError), uninterrupted():
            self._channel.sendall(f"{line}\n".encode())

    def kill(self) -> None:
        """See Conversation.kill: the command reads end of file and exits."""
        self._closing.close()

    def end(self) -> CommandResult:
        """See Conversation.end."""
        try:
            stdout = self._channel.makefile("rb").read(OUTPUT_LIMIT_BYTES + 1)
            self._channel.status_event.wait(_END_PATIENCE_S)
            status = self._channel.exit_status
        except OSError as problem:
            raise self._lost(str(problem)) from problem
        finally:
            self._closing.close()
        if status == -1:
            raise self._lost("the connection was lost")
        return decoded(self._host, self._argv, status, stdout, b"".join(self._lines))

    def _lost(self, why: str) -> TransportError:
        details = {"host": self._host, "command": command_text(self._argv)}
        return TransportError(f"{self._host}: {program(self._argv)}: {why}", details)
