"""A dry-run connector passes on reads and records everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.hosts.connector import CommandResult
from tuner.hosts.conversation import Conversation
from tuner.hosts.dry import DryConnector


@dataclass
class Host:
    ran: list[tuple[str, ...]] = field(default_factory=list)
    host: str = "fs9"

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        self.ran.append(tuple(argv))
        return CommandResult(tuple(argv), 1, "", "")

    change = ask

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        raise AssertionError(argv)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        raise AssertionError(path)

    def get(self, path: str) -> bytes:
        return b"as it is"

    def converse(self, argv: Sequence[str]) -> Conversation:
        raise AssertionError(argv)


def test_only_reads_reach_the_host() -> None:
    real, would = Host(), list[tuple[str, tuple[str, ...]]]()
    dry = DryConnector(real, would)
    dry.ask(["cat", "/a"])
    dry.put("/b", b"1234")
    dry.change(["mv", "/b.new", "/b"])
    assert dry.ask(["test", "-d", "/b"]).status == 0
    assert dry.ask(["test", "-d", "/c"]).status == 1
    dry.change(["rm", "-r", "/b"])
    assert dry.ask(["test", "-d", "/b"]).status == 1
    assert dry.converse(["python3", "x"]).end().status == 0
    assert {argv[0] for argv in real.ran} == {"cat", "test"}
    assert [argv[0] for _, argv in would] == ["write", "mv", "rm", "python3"]
