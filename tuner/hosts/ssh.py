"""Connector to a host over SSH.

Owns one exchange with a host's supervisor (``supervisor.py``) over a channel, and its time limits.
Logging in, with the check of the host's key, is in ``log_in.py``.
The host needs python3 (3.9 or newer) and a login shell that can run commands; nothing is installed
there. A command that nobody is waiting for any more is killed on the host: the supervisor notices
that the connection has closed, and in any case enforces the command's own time limit.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import paramiko

from tuner.errors import AccessError, TestbedError, TransportError
from tuner.hosts import detached
from tuner.hosts.connector import (
    OUTPUT_LIMIT_BYTES,
    CommandFailed,
    CommandResult,
    Direct,
    command_text,
    decoded,
    program,
    write_whole,
)
from tuner.hosts.exchange import BOOTSTRAP, CONVERSATION, Answer, AnswerReader, Request
from tuner.hosts.link import Link, OpenSocket, open_socket
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.quoting import quote, refuse_null
from tuner.hosts.ssh_conversation import SshConversation
from tuner.interruption import uninterrupted

#: Transfers of input and answers that are slower than this are given up.
_LEAST_BYTES_PER_S = 100_000
_CHUNK_BYTES = 65536
#: How much output other than the answer is kept for error messages.
_NOISE_BYTES = 4096
_NOISE_CHARACTERS = 400
_STATUS_PATIENCE_S = 2.0


class SshConnector(Direct):
    """Runs commands on one host over a single connection; safe to use from several threads.

    With ``SshHost.sudo`` they run as root. Raises AccessError when login fails or the host is not
    trusted, TransportError when a command did not reach the host or its result did not come back;
    a plain command is then killed on the host, but may already have taken effect.
    """

    def __init__(
        self, host: SshHost, patience: Patience | None = None, opener: OpenSocket = open_socket
    ) -> None:
        self._host = host
        self._patience = patience or Patience()
        self._link = Link(host, self._patience, opener)
        self._sudo = ("sudo", "-n", "--") if host.sudo else ()
        #: Boot identifier of the host at its last answer.
        self._boot_id = ""
        self._command = quote([*self._sudo, *BOOTSTRAP])
        self._conversation = quote([*self._sudo, *CONVERSATION])

    def __enter__(self) -> SshConnector:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def host(self) -> str:
        """The host's name in messages."""
        return self._host.address

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Direct.run. The time limit starts when the host has received the command."""
        answer = self._run(argv, input, timeout_s)
        return decoded(self.host, argv, answer.status, answer.stdout, answer.stderr)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put."""
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        """See Connector.get."""
        argv = ["cat", "--", path]
        answer = self._run(argv, b"", 60.0)
        result = decoded(self.host, argv, answer.status, answer.stdout, answer.stderr)
        if result.status != 0:
            raise CommandFailed(self.host, result)
        return answer.stdout

    def converse(self, argv: Sequence[str]) -> SshConversation:
        """See SpeakingConnector.converse."""
        refuse_null(argv)
        with ExitStack() as opening:
            channel = opening.enter_context(self._link.channel())
            with uninterrupted():
                channel.exec_command(self._conversation)
                channel.sendall(f"{json.dumps(list(argv))}\n".encode())
            return SshConversation(self.host, argv, channel, opening.pop_all())
        raise AssertionError("an exit stack hides no error")

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long."""
        reconnect_s = self._patience.reconnect_s
        return self.run_detached(argv, run_id=run_id, timeout_s=timeout_s, reconnect_s=reconnect_s)

    def run_detached(
        self,
        argv: Sequence[str],
        *,
        run_id: str,
        timeout_s: float = 3600.0,
        reconnect_s: float = 300.0,
    ) -> CommandResult:
        """Run a command that survives a lost connection; see ``detached.run``."""
        refuse_null(argv)
        waiting = detached.Waiting(timeout_s, reconnect_s, self._patience.keepalive_s)
        with self._naming_command(argv):
            run = detached.run(self._exchange, self.host, argv, run_id, waiting, self._boot_id)
        answer = run.finished(self.host, argv, timeout_s)
        return decoded(self.host, argv, answer.status, answer.stdout, answer.stderr)

    def close(self) -> None:
        """Close the connection. Commands still waiting on it raise TransportError."""
        self._link.close()

    def _run(self, argv: Sequence[str], input: bytes, timeout_s: float) -> Answer:
        refuse_null(argv)
        fields = {"argv": list(argv), "timeout_s": timeout_s}
        request = Request("run", self._patience.keepalive_s, fields, input)
        with self._naming_command(argv):
            answer = self._exchange(request, program(argv), timeout_s)
        return answer.finished(self.host, argv, timeout_s)

    @contextmanager
    def _naming_command(self, argv: Sequence[str]) -> Iterator[None]:
        """Add host and command to the details of a TransportError."""
        try:
            yield
        except TransportError as problem:
            problem.details = problem.details or {"host": self.host, "command": command_text(argv)}
            raise

    def _exchange(self, request: Request, what: str, limit_s: float) -> Answer:
        """Send the host's supervisor a request that takes it at most ``limit_s`` to answer."""
        reader = AnswerReader()
        with self._link.session() as session:
            channel = session.channel
            data = request.encode(reader.mark, first=session.is_new)
            sending_s = self._patience.silence_s + len(data) / _LEAST_BYTES_PER_S
            with self._link.dropped_after(sending_s, channel):
                if session.is_new:
                    channel.exec_command(self._command)
                # If the far end closes before it has read everything, _listen explains why.
                with suppress(OSError):
                    channel.sendall(data)
            transfer_s = 2 * OUTPUT_LIMIT_BYTES / _LEAST_BYTES_PER_S
            deadline = time.monotonic() + limit_s + self._patience.silence_s + transfer_s
            try:
                answer = self._listen(channel, reader, what, deadline)
            except ValueError as problem:
                raise TransportError(f"{self.host}: {what}: bad answer: {problem}") from problem
            self._boot_id = answer.boot_id
            session.is_reusable = True
            return answer

    def _listen(
        self, channel: paramiko.Channel, reader: AnswerReader, what: str, deadline: float
    ) -> Answer:
        """Wait for the answer as long as the host sends heartbeats, until ``deadline``."""
        noise = b""
        awake = select.poll()
        with uninterrupted():
            awake.register(channel.fileno(), select.POLLIN)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TransportError(
                    f"{self.host}: {what}: no answer in time, although the host is alive"
                )
            silence_s = min(self._patience.silence_s, left_s)
            if not awake.poll(1000 * silence_s):
                if silence_s < self._patience.silence_s:
                    continue  # it was the deadline that ended the wait
                self._link.drop(channel)  # others would wait on it in vain too
                raise TransportError(
                    f"{self.host}: {what}: the connection is dead: nothing came from the host for "
                    f"{silence_s:.3g} s"
                )
            with uninterrupted():
                over = channel.eof_received or channel.closed
                while channel.recv_ready():
                    answer = reader.feed(channel.recv(_CHUNK_BYTES))
                    if answer is not None:
                        return answer
                while channel.recv_stderr_ready():
                    noise = (noise + channel.recv_stderr(_CHUNK_BYTES))[-_NOISE_BYTES:]
            if over:
                raise self._no_answer(channel, what, noise.decode(errors="replace"))

    def _no_answer(self, channel: paramiko.Channel, what: str, noise: str) -> TestbedError:
        """The error that explains why the host's supervisor did not answer."""
        channel.status_event.wait(_STATUS_PATIENCE_S)
        words = " ".join(noise.split())[-_NOISE_CHARACTERS:]
        user = self._host.user
        # First, since a sudo that refuses ends with a status, and one that does not may warn.
        if channel.exit_status == -1:
            return TransportError(f"{self.host}: {what}: the connection was lost: {words}")
        if "sudo:" in words:
            return AccessError(
                f"{self._host.account}: sudo refuses: {words}; let {user} run everything without a "
                f"password ('{user} ALL=(ALL) NOPASSWD: ALL' in sudoers), or log in as root"
            )
        return AccessError(
            f"{self._host.account}: the account cannot run commands (exit status "
            f"{channel.exit_status}: {words or 'it printed nothing'}); it needs a usual login "
            "shell and python3"
        )
