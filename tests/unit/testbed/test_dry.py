"""What only reads, and what a dry connector does with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tuner.testbed.connector import CommandResult
from tuner.testbed.conversation import Conversation
from tuner.testbed.dry import DryConnector, reads


@dataclass
class Host:
    ran: list[tuple[str, ...]] = field(default_factory=list)
    host: str = "fs9"

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        self.ran.append(tuple(argv))
        return CommandResult(tuple(argv), 1, "", "")

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


@pytest.mark.parametrize(
    ("command", "only_reads"),
    [
        ("bos status 192.0.2.9 dafs -long", True),
        ("bos stop 192.0.2.9 dafs", False),
        ("bos", False),
        ("vos listvol 192.0.2.9", True),
        ("vos remove 192.0.2.9 a bench", False),
        ("find /x -name restore.sh", True),
        ("find /x -delete", False),
        ("cat /proc/uptime", True),
        ("python3 --version", True),
        ("python3 x.pyz run", False),
        ("sh x.sh", False),
        ("rm -rf /x", False),
    ],
)
def test_what_is_not_known_to_read_is_taken_to_change(command: str, only_reads: bool) -> None:
    assert reads(command.split()) is only_reads


def test_nothing_but_reading_reaches_the_host() -> None:
    real, would = Host(), list[tuple[str, tuple[str, ...]]]()
    dry = DryConnector(real, would)
    dry.run(["cat", "/a"])
    dry.put("/b", b"1234")
    dry.run(["mv", "/b.new", "/b"])
    assert dry.run(["test", "-d", "/b"]).status == 0
    assert dry.run(["test", "-d", "/c"]).status == 1
    dry.run(["rm", "-r", "/b"])
    assert dry.run(["test", "-d", "/b"]).status == 1
    assert dry.converse(["python3", "x"]).end().status == 0
    assert {argv[0] for argv in real.ran} == {"cat", "test"}
    assert [argv[0] for _, argv in would] == ["write", "mv", "rm", "python3"]
