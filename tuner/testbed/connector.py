"""The one way in which commands and files reach a host.

A connector takes argument lists, never strings: whatever quoting a transport needs happens inside
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.errors import TestbedError, TransportError

#: How much of a failed command's output an error repeats.
_TAIL_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ran to its end. ``status``: exit status, negative for the signal that ended
    it.
    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def tail(self) -> str:
        """The end of what the command said, on one line: for errors and events."""
        said = " ".join((self.stderr.strip() or self.stdout.strip()).split())
        return said[-_TAIL_CHARACTERS:] or "it printed nothing"


class CommandFailed(TestbedError):
    """A command that must succeed did not."""

    slug = "command-failed"

    def __init__(self, host: str, result: CommandResult) -> None:
        self.result = result
        program = " ".join(result.argv[:2])
        super().__init__(f"{host}: {program}: exit status {result.status}: {result.tail}")


class CommandTimeout(TransportError):
    """A command was reached but did not end within its time; it was killed."""


class Connector(Protocol):
    """A host, reached somehow. Raises CommandTimeout when a command does not end in time, else
    TransportError when it does not come back.
    """

    @property
    def host(self) -> str:
        """The host's name in messages."""
        ...

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """Run a command to its end, whatever its exit status."""
        ...

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file on the host, whole or not at all."""
        ...


def check(connector: Connector, argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
    """Run a command that must succeed; returns its standard output. Raises CommandFailed."""
    result = connector.run(argv, timeout_s=timeout_s)
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    return result.stdout
