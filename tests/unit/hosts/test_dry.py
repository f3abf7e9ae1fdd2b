"""A dry-run connector passes on reads and records everything else."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.unit.hosts.place import THEIRS, Place
from tuner.hosts.connector import CommandResult
from tuner.hosts.conversation import Conversation
from tuner.hosts.dry import DryConnector
from tuner.hosts.hold import Hold
from tuner.hosts.local import LocalConnector


@dataclass
class Host:
    ran: list[tuple[str, ...]] = field(default_factory=list)
    host: str = "fs9"
    status: int = 1

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        self.ran.append(tuple(argv))
        return CommandResult(tuple(argv), self.status, "", "")

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
    real, commands = Host(), list[tuple[str, tuple[str, ...]]]()
    dry = DryConnector(real, commands)
    dry.ask(["cat", "/a"])
    dry.put("/b", b"1234")
    dry.change(["mv", "/b.new", "/b"])
    assert dry.ask(["test", "-d", "/b"]).status == 0
    assert dry.ask(["test", "-d", "/c"]).status == 1
    dry.change(["rm", "-r", "/b"])
    assert dry.ask(["test", "-d", "/b"]).status == 1
    assert dry.converse(["python3", "x"]).end().status == 0
    assert {argv[0] for argv in real.ran} == {"cat", "test"}
    assert [argv[0] for _, argv in commands] == ["write", "mv", "rm", "python3"]


def test_what_would_be_removed_counts_as_absent_until_it_would_be_there_again() -> None:
    dry = DryConnector(Host(status=0), [])
    for again in (["mkdir", "--parents", "/a"], ["mv", "/b.new", "/a"]):
        assert dry.ask(["test", "-d", "/a"]).status == 0
        dry.change(["rm", "--recursive", "--force", "/a", "/c"])
        assert dry.ask(["test", "-d", "/a"]).status == 1
        assert dry.ask(["test", "-d", "/c"]).status == 1
        dry.change(again)
    dry.change(["rm", "--force", "/a"])
    dry.put("/a", b"")
    assert dry.ask(["test", "-e", "/a"]).status == 0


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_dry_run_takes_a_host_that_an_ended_watch_left_unfinished(place: Place) -> None:
    place.take()
    place.kill_watch()
    path = place.journal()
    expired = place.directory / "lease.expired"
    (place.directory / "lease").rename(expired)
    commands: list[tuple[str, tuple[str, ...]]] = []
    dry = DryConnector(LocalConnector(), commands)
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(Hold.take, dry, str(place.directory), THEIRS, 60.0)
        try:
            taking.result(20.0)
        finally:
            shutil.rmtree(expired)  # ends a loop that waits for this
    assert ("localhost", ("rm", "--recursive", "--force", str(expired))) in commands
    assert path.exists()
    assert place.proof == []
