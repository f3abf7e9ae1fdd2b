"""Connector to a node of a private cell: enters its namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import CellError, Node, RawResult
from deploy.cell.node import ENVIRONMENT
from tuner.errors import TestbedError, TransportError
from tuner.hosts.child import ChildConnector
from tuner.hosts.connector import CommandResult, CommandTimeout
from tuner.hosts.conversation import ProcessConversation
from tuner.hosts.guard import SERIAL_MARK, refusal, serial
from tuner.hosts.node_supervisor import NodeSupervisors, check_running


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
class SupervisedNode(NodeConnector):
    """A node whose namespaces are entered once, for a testbed that runs many commands."""

    supervisors: NodeSupervisors

    def complete(
        self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0
    ) -> RawResult:
        """See ChildConnector.complete."""
        answer = self.supervisors.run(argv, input, timeout_s)
        return RawResult(answer.status, answer.stdout, answer.stderr)


@dataclass(frozen=True, slots=True)
class SerialNode(SupervisedNode):
    """A node in which one change waits for the end of another, for a testbed without leases.

    A command that the kernel holds, or whose supervisor was killed, outlives the process that
    requested it. Without the wait, a resumed campaign would change the node at the same time.
    ``directory``: an existing one in the node, on which the lock is.
    """

    directory: str

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.change. Raises TestbedError if another change does not end within half of
        ``timeout_s``.
        """
        alone = serial(argv, self.directory, timeout_s / 2.0)
        result = self.run(alone, input=input, timeout_s=timeout_s)
        refused = refusal(result.stderr, SERIAL_MARK)
        if refused is not None:
            # A node numbers its processes itself: those numbers mean others outside.
            inside = f"fstune cell exec --name {self.node.directory.parent.name} {self.host}"
            who, advice = "", f"to see it: {inside} ps -ef"
            if refused.processes:
                who, advice = f": {refused.processes}", f"or end it: {inside} kill PID"
            raise TestbedError(
                f"{self.host}: another change is still under way there{who}; wait for it; {advice}"
            )
        return result
