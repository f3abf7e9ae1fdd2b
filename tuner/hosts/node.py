"""Connector to a node of a private cell: enters its namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import CellError, Completed, Node
from deploy.cell.node import ENVIRONMENT
from tuner.errors import TransportError
from tuner.hosts.child import ChildConnector
from tuner.hosts.connector import CommandTimeout
from tuner.hosts.conversation import ProcessConversation


@dataclass(frozen=True, slots=True)
class NodeConnector(ChildConnector):
    """Runs commands as root in the namespaces of one node."""

    node: Node

    @property
    def host(self) -> str:
        return self.node.name

    def converse(self, argv: Sequence[str]) -> ProcessConversation:
        """See SpeakingConnector.converse."""
        if not self.node.is_alive():
            raise TransportError(f"{self.host}: the node is not running; bring the cell up again")
        return ProcessConversation(self.host, argv, self.node.enter(argv), ENVIRONMENT)

    def complete(
        self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0
    ) -> Completed:
        """See ChildConnector.complete."""
        try:
            return self.node.run(argv, input=input, timeout_s=timeout_s)
        except TimeoutError as problem:
            raise CommandTimeout(
                self.host, argv, f"not finished after {timeout_s:g} s"
            ) from problem
        except CellError as problem:
            raise TransportError(str(problem)) from problem
