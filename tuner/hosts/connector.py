"""The interface through which all commands and files reach a host.

A connector takes argument lists, never strings: any quoting that a transport needs is done inside
it. The caller declares whether a command only reads (``ask``) or changes something (``change``): a
leased host is only changed while the host itself confirms the lease (``hold.py``).
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tuner.errors import TestbedError, TransportError
from tuner.hosts.guard import bare

#: How much of a failed command's output an error quotes, and of the command itself its details.
_TAIL_CHARACTERS = 400
_COMMAND_CHARACTERS = 1000
_NAME_CHARACTERS = 100

#: Arguments: mode and path; the content is read from standard input.
_WRITE = """\
install --mode="$1" -- /dev/stdin "$2.new" && exec mv --no-target-directory -- "$2.new" "$2"
"""

_WRITING = ("sh", "-c", _WRITE, "sh")

#: Limit on what a command may write to standard output, and likewise to standard error.
OUTPUT_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a completed command. ``status``: exit status, or the negative number of the signal
    that ended it.
    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def tail(self) -> str:
        """The end of the command's output on one line, for errors and events."""
        text = " ".join((self.stderr.strip() or self.stdout.strip()).split())
        return text[-_TAIL_CHARACTERS:] or "it printed nothing"


class CommandFailed(TestbedError):
    """A command that had to succeed failed."""

    slug = "command-failed"

    def __init__(self, host: str, result: CommandResult) -> None:
        super().__init__(
            f"{host}: {program(result.argv)}: exit status {result.status}: {result.tail}",
            failure_data(result, host),
        )


class CommandTimeout(TransportError):
    """A command started but did not end within its time limit, and was killed."""

    slug = "timeout"

    def __init__(self, host: str, argv: Sequence[str], why: str) -> None:
        details = {"host": host, "command": command_text(argv)}
        super().__init__(f"{host}: {program(argv)}: {why}", details)


class OutputTooLarge(TestbedError):
    """A command wrote more output than the limit; all of it was discarded."""

    slug = "output-too-large"

    def __init__(self, host: str, argv: Sequence[str]) -> None:
        limit = OUTPUT_LIMIT_BYTES >> 20
        super().__init__(f"{host}: {program(argv)}: it wrote more than {limit} MiB")


class Connector(Protocol):
    """Access to a host; safe to use from several threads. Raises CommandTimeout when a command does
    not end in time, OutputTooLarge when it writes too much, and otherwise TransportError when its
    result does not come back.
    """

    @property
    def host(self) -> str:
        """The host's name in messages."""
        ...

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a read-only command to its end, whatever its exit status."""
        ...

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a command that may change something to its end, whatever its exit status.

        On a leased host it has the lock of the host as file descriptor 9. A daemon that it starts
        itself must be started with that closed (``9<&-``): otherwise the next change is refused.
        """
        ...

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file on the host atomically."""
        ...

    def get(self, path: str) -> bytes:
        """Read a file on the host. Raises CommandFailed when it cannot be read."""
        ...


class Direct(ABC):
    """A connector without a guard in between: ``ask`` and ``change`` do the same."""

    __slots__ = ()

    @abstractmethod
    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a command to its end, whatever its exit status."""

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.ask."""
        return self.run(argv, input=input, timeout_s=timeout_s)

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.change."""
        return self.run(argv, input=input, timeout_s=timeout_s)


def check(connector: Connector, argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
    """``ask``, and return the standard output. Raises CommandFailed if the command fails."""
    result = connector.ask(argv, timeout_s=timeout_s)
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    return result.stdout


def check_change(connector: Connector, argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
    """``change``, and return the standard output. Raises CommandFailed if the command fails."""
    result = connector.change(argv, timeout_s=timeout_s)
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    return result.stdout


@contextmanager
def understood(host: str) -> Iterator[None]:
    """Turn errors from parsing a host's output in the body into TestbedError."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        message = " ".join(str(problem).split())[:_TAIL_CHARACTERS]
        raise TestbedError(f"{host}: its answer cannot be parsed: {message}") from problem


def failure_data(result: CommandResult, host: str = "") -> dict[str, str | int]:
    """Details to record of a failed command; never its input, which may be secret."""
    data: dict[str, str | int] = {"host": host} if host else {}
    return {
        **data,
        "command": command_text(result.argv),
        "exit_status": result.status,
        "output": result.tail,
    }


def command_text(argv: Sequence[str]) -> str:
    """A command as recorded with a failure: without its guard, shell-quoted and truncated."""
    return shlex.join(bare(argv))[:_COMMAND_CHARACTERS]


def program(argv: Sequence[str]) -> str:
    """A command's name in messages: its first two words, since the rest may be long or secret."""
    name = " ".join(bare(argv)[:2])
    return name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}..."


def decoded(
    host: str, argv: Sequence[str], status: int, stdout: bytes, stderr: bytes
) -> CommandResult:
    """Build the result of a command from its output bytes. Raises OutputTooLarge."""
    if max(len(stdout), len(stderr)) > OUTPUT_LIMIT_BYTES:
        raise OutputTooLarge(host, argv)
    texts = [data.decode(errors="replace") for data in (stdout, stderr)]
    return CommandResult(tuple(bare(argv)), status, texts[0], texts[1])


def write_whole(connector: Connector, path: str, content: bytes, mode: int) -> None:
    """Write a file atomically with a command: to PATH.new, then renamed. Raises CommandFailed."""
    argv = [*_WRITING, f"{mode:o}", path]
    result = connector.change(argv, input=content)
    if result.status != 0:
        raise CommandFailed(connector.host, result)


def written_file(argv: Sequence[str]) -> tuple[str, int] | None:
    """Path and mode of the file that a ``write_whole`` command writes; None for other commands."""
    *first, mode, path = argv if len(argv) > len(_WRITING) else ("", "", "")
    return (path, int(mode, 8)) if tuple(first) == _WRITING else None
