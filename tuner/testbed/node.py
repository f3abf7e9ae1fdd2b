"""Connector to a node of a private cell: enters its namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import CellError, Node
from tuner.errors import TransportError
from tuner.testbed.connector import CommandFailed, CommandResult, CommandTimeout


@dataclass(frozen=True, slots=True)
class NodeConnector:
    """Runs commands as root inside one node."""

    node: Node

    @property
    def host(self) -> str:
        return self.node.name

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        try:
            done = self.node.run(argv, input=input, timeout_s=timeout_s)
        except TimeoutError as problem:
            raise CommandTimeout(f"{self.host}: {problem}") from problem
        except CellError as problem:
            raise TransportError(str(problem)) from problem
        return CommandResult(
            tuple(argv),
            done.status,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        fresh = f"{path}.new"
        for argv, data in (
            (["install", f"--mode={mode:o}", "/dev/stdin", fresh], content),
            (["mv", "--no-target-directory", fresh, path], b""),
        ):
            result = self.run(argv, input=data)
            if result.status != 0:
                raise CommandFailed(self.host, result)
