"""Base class of connectors that run commands as child processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from deploy.cell import RawResult
from tuner.hosts.connector import CommandFailed, CommandResult, Direct, decoded, write_whole


class ChildConnector(Direct):
    """A connector whose commands are child processes: there is no connection to lose."""

    __slots__ = ()

    @property
    @abstractmethod
    def host(self) -> str:
        """See Connector.host."""

    @abstractmethod
    def complete(
        self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0
    ) -> RawResult:
        """Run a command to its end. Raises TransportError, including CommandTimeout."""

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Direct.run."""
        outcome = self.complete(argv, input, timeout_s)
        return decoded(self.host, argv, outcome.status, outcome.stdout, outcome.stderr)

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long; same as ``run``, as no connection can be lost."""
        return self.run(argv, timeout_s=timeout_s)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put."""
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        """See Connector.get."""
        argv = ["cat", "--", path]
        outcome = self.complete(argv)
        result = decoded(self.host, argv, outcome.status, outcome.stdout, outcome.stderr)
        if result.status != 0:
            raise CommandFailed(self.host, result)
        return outcome.stdout
