"""How long to wait for hosts, and what is recorded of a failure."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tuner.errors import AccessError, ConfigurationError, TestbedError, TransportError, evidence
from tuner.hosts import hold as holding
from tuner.hosts.connections import patience
from tuner.hosts.connector import CommandFailed, CommandResult, CommandTimeout, written_file
from tuner.hosts.conversation import Conversation
from tuner.hosts.guard import bare
from tuner.hosts.hold import TRUSTED_S, Hold, patience_s
from tuner.hosts.lease import HostLease, Owner
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.ssh import SshConnector


@dataclass
class Flaky:
    """A host that fails the next calls with ``failures``, then succeeds."""

    failures: list[Exception]
    host: str = "fs9"
    ran: list[tuple[str, ...]] = field(default_factory=list)
    #: Exit status of its heartbeat script.
    beats: int = 0

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        argv = bare(argv)
        beat = argv[1:2] == ["/restore/heartbeat.sh"]
        file = written_file(argv)
        command = ("write", file[0]) if file else tuple(argv)
        self.ran.append(("beat",) if beat else command)
        if self.failures:
            raise self.failures.pop(0)
        return CommandResult(tuple(argv), self.beats if beat else 0, "", "it says so")

    ask = change = run

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        return self.run(argv)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        raise AssertionError(path)

    def get(self, path: str) -> bytes:
        raise AssertionError(path)

    def converse(self, argv: Sequence[str]) -> Conversation:
        return Lost(tuple(argv))


@dataclass
class Lost:
    """A conversation whose connection is lost before its end."""

    argv: tuple[str, ...]

    def listen(self) -> str | None:
        return None

    def say(self, line: str) -> None:
        raise AssertionError(line)

    def kill(self) -> None:
        raise AssertionError(self.argv)

    def end(self) -> CommandResult:
        raise TransportError("lost")


def make_hold(*failures: Exception, after_s: float = 600.0) -> tuple[Flaky, Hold]:
    host = Flaky(list(failures))
    return host, Hold(HostLease(host, "/restore", Owner("campaign", "here"), after_s))


def test_a_lost_host_is_asked_for_the_lease_before_anything_else() -> None:
    host, hold = make_hold(TransportError("lost"))
    with pytest.raises(TransportError, match="lost"):
        hold.ask(["bos", "status"])
    hold.ask(["bos", "status"])
    assert host.ran == [("bos", "status"), ("beat",), ("bos", "status")]


def test_a_host_that_was_lost_during_a_conversation_is_asked_too() -> None:
    """It may have been rebooted: even a recent heartbeat may be out of date."""
    host, hold = make_hold()
    hold.change(["bos", "stop"])
    talk = hold.converse(["engine"])
    assert talk.listen() is None
    with pytest.raises(TransportError, match="lost"):
        talk.end()
    host.ran.clear()
    hold.change(["bos", "start"])
    assert host.ran == [("beat",), ("bos", "start")]


def test_the_lease_is_confirmed_before_changes_but_not_before_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that also counts while the machine is suspended; again when the answer is old."""
    now = 1000.0
    monkeypatch.setattr(holding, "_awake_s", lambda: now)
    host, hold = make_hold()
    hold.ask(["bos", "status"])
    assert host.ran == [("bos", "status")]
    for _ in range(2):
        now += 0.9 * TRUSTED_S  # twice this is too long, whatever was done in between
        host.ran.clear()
        hold.change(["bos", "stop"])
        hold.run_long(["bos", "create"], run_id="r")
        hold.put("/a", b"")
        changes = [("bos", "stop"), ("bos", "create"), ("write", "/a")]
        assert host.ran == [("beat",), *changes]
        now += 0.9 * TRUSTED_S
        host.ran.clear()
        hold.change(["bos", "stop"])
        assert host.ran == [("bos", "stop")]


@pytest.mark.parametrize(
    ("status", "message", "is_restored"),
    [
        (9, "fs9 has restored itself", False),
        (8, "fs9 was restarted while it was in use", True),
        (1, "heartbeat.sh: exit status 1: it says so", True),
    ],
)
def test_a_host_that_was_lost_or_rebooted_is_not_changed_any_more(
    status: int, message: str, is_restored: bool
) -> None:
    host, hold = make_hold()
    host.beats = status
    for _ in range(2):
        with pytest.raises(TestbedError, match=message):
            hold.change(["bos", "stop"])
    hold.only_restore()
    if is_restored:
        hold.change(["sh", "restore.sh"])
    else:
        with pytest.raises(TestbedError, match=message):
            hold.change(["sh", "restore.sh"])
    assert (("sh", "restore.sh") in host.ran) is is_restored
    assert ("bos", "stop") not in host.ran


@pytest.mark.slow
def test_a_host_that_stays_away_is_given_up() -> None:
    host, hold = make_hold(*[TransportError(f"lost {n}") for n in range(4)], after_s=0.001)
    with pytest.raises(TransportError, match="lost 0"):
        hold.change(["a"])
    with pytest.raises(TransportError, match=r"lost [12]"):
        hold.change(["b"])
    assert ("b",) not in host.ran


def test_a_command_that_takes_too_long_does_not_make_its_host_lost() -> None:
    host, hold = make_hold(CommandTimeout("fs9", ["cat"], "no end"))
    with pytest.raises(CommandTimeout):
        hold.ask(["cat"])
    hold.ask(["ls"])
    assert host.ran == [("cat",), ("ls",)]


def test_a_dead_connection_is_noticed_well_before_a_host_restores_itself() -> None:
    assert patience(1800.0) == Patience()
    for after_s in (6.0, 60.0, 600.0, 1800.0):
        limits = patience(after_s)
        assert limits.silence_s + limits.connect_s < after_s / 2.0
        assert patience_s(after_s) <= after_s / 2.0


def test_what_is_recorded_of_a_failure() -> None:
    result = CommandResult(("bos", "create", "a b"), 1, "", "bos: no\nsuch cell\n")
    failed = CommandFailed("fs9", result)
    details = {
        "host": "fs9",
        "command": "bos create 'a b'",
        "exit_status": 1,
        "output": "bos: no such cell",
    }
    assert evidence(failed) == {"failure": "command-failed", **details}
    outer = ConfigurationError("it does not start")
    outer.__cause__ = failed
    assert evidence(outer) == {"failure": "configuration", **details}
    assert evidence(TestbedError("gone")) == {"failure": "testbed"}
    assert evidence(KeyboardInterrupt()) == {}


@dataclass
class Over:
    """A channel that ended without an answer; -1 is no exit status at all."""

    exit_status: int
    status_event: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.status_event.set()


@pytest.mark.parametrize(
    ("status", "noise", "error", "says"),
    [
        (-1, "sudo: unable to resolve host fs9", TransportError, "the connection was lost: sudo"),
        (-1, "", TransportError, "the connection was lost"),
        (1, "sudo: a password is required", AccessError, "sudo refuses: sudo: a password"),
        (127, "python3: not found", AccessError, "exit status 127: python3: not found"),
    ],
)
def test_why_there_was_no_answer(status: int, noise: str, error: type, says: str) -> None:
    connector = SshConnector(SshHost("fs9", user="visitor", sudo=True))
    problem = connector._no_answer(cast("Any", Over(status)), "sh", noise)
    assert type(problem) is error
    assert says in str(problem)
