"""Connector to a node of a private cell: enters its namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import CellError, Completed, Node
from deploy.cell.node import ENVIRONMENT
from tuner.errors import TransportError
from tuner.hosts.connector import (
    CommandFailed,
    CommandResult,
    CommandTimeout,
    Direct,
    decoded,
    write_whole,
)
from tuner.hosts.conversation import ProcessConversation


@dataclass(frozen=True, slots=True)
class NodeConnector(Direct):
    """Runs commands as root inside one node."""

    node: Node

    @property
    def host(self) -> str:
        return self.node.name

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        done = self._run(argv, input, timeout_s)
        return decoded(self.host, argv, done.status, done.stdout, done.stderr)

    def converse(self, argv: Sequence[str]) -> ProcessConversation:
        """See SpeakingConnector.converse."""
        if not self.node.is_alive():
            raise TransportError(f"{self.host}: the node is not running; bring the cell up again")
        return ProcessConversation(self.host, argv, self.node.enter(argv), ENVIRONMENT)

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long: nothing comes between us and this machine."""
        return self.run(argv, timeout_s=timeout_s)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        argv = ["cat", "--", path]
        done = self._run(argv)
        result = decoded(self.host, argv, done.status, done.stdout, done.stderr)
        if result.status != 0:
            raise CommandFailed(self.host, result)
        return done.stdout

    def _run(self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0) -> Completed:
        try:
            return self.node.run(argv, input=input, timeout_s=timeout_s)
        except TimeoutError as problem:
            raise CommandTimeout(self.host, argv, f"no end after {timeout_s:g} s") from problem
        except CellError as problem:
            raise TransportError(str(problem)) from problem
