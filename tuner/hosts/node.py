"""Connector to a node of a private cell: enters its namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import CellError, Node, RawResult
from deploy.cell.node import ENVIRONMENT
from tuner.errors import TestbedError, TransportError
from tuner.hosts.child import ChildConnector
from tuner.hosts.connector import CommandResult, CommandTimeout, decoded
from tuner.hosts.conversation import ProcessConversation
from tuner.hosts.node_supervisor import NodeSupervisor, check_running

_BUSY = "serial: busy\n"
#: Daemons that a command starts close descriptor 9; see guard.py.
_SERIAL = r"""
wait_s=$1 directory=$2
shift 2
exec 9< "$directory" && flock --timeout "$wait_s" 9 || { echo 'serial: busy' >&2; exit 9; }
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class NodeConnector(ChildConnector):
    """Runs commands as root in the namespaces of one node."""

    node: Node

    @property
    def host(self) -> str:
        return self.node.name

    def converse(self, argv: Sequence[str]) -> ProcessConversation:
        """See SpeakingConnector.converse."""
        check_running(self.node)
        return ProcessConversation(self.host, argv, self.node.enter(argv), ENVIRONMENT)

    def complete(
        self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0
    ) -> RawResult:
        """See ChildConnector.complete."""
        try:
            return self.node.run(argv, input=input, timeout_s=timeout_s)
        except TimeoutError as problem:
            raise CommandTimeout(
                self.host, argv, f"not finished after {timeout_s:g} s"
            ) from problem
        except CellError as problem:
            raise TransportError(str(problem)) from problem


@dataclass(frozen=True, slots=True)
class SerialNode(NodeConnector):
    """A node in which one change waits for the end of another, for a testbed that runs many
    commands.

    A command that the kernel holds outlives the process that requested it. Without the wait, a
    resumed campaign would change the node at the same time. ``directory``: an existing one in the
    node, on which the lock is.
    """

    supervisor: NodeSupervisor
    directory: str

    def complete(
        self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0
    ) -> RawResult:
        """See ChildConnector.complete."""
        answer = self.supervisor.run(argv, input, timeout_s)
        return RawResult(answer.status, answer.stdout, answer.stderr)

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.change. Raises TestbedError if another change does not end within half of
        ``timeout_s``.
        """
        wait_s = timeout_s / 2.0
        serial = ["sh", "-c", _SERIAL, "serial", f"{wait_s:.1f}", self.directory, *argv]
        try:
            outcome = self.complete(serial, input, timeout_s)
        except CommandTimeout as problem:
            raise CommandTimeout(
                self.host, argv, f"not finished after {timeout_s:g} s"
            ) from problem
        result = decoded(self.host, argv, outcome.status, outcome.stdout, outcome.stderr)
        if result.stderr == _BUSY:
            raise TestbedError(f"{self.host}: another change is still under way there; see 'ps'")
        return result
