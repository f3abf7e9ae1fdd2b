"""How long hosts are waited for, and what is kept of a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tuner.errors import ConfigurationError, TestbedError, TransportError, evidence
from tuner.hosts import hold as holding
from tuner.hosts.connector import CommandFailed, CommandResult, CommandTimeout, written_file
from tuner.hosts.conversation import Conversation
from tuner.hosts.guard import bare
from tuner.hosts.hold import TRUSTED_S, Hold, Owner, patience_s
from tuner.hosts.log_in import Patience
from tuner.services.openafs.hosts import patience


@dataclass
class Flaky:
    """A host whose next answers are these failures; then it is well."""

    failures: list[Exception]
    host: str = "fs9"
    ran: list[tuple[str, ...]] = field(default_factory=list)
    #: How its heartbeat script ends.
    beats: int = 0

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        argv = bare(argv)
        beat = argv[1:2] == ["/restore/heartbeat.sh"]
        file = written_file(argv)
        meant = ("write", file[0]) if file else tuple(argv)
        self.ran.append(("beat",) if beat else meant)
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
    """A conversation whose connection does not live to its end."""

    argv: tuple[str, ...]

    def listen(self) -> str | None:
        return None

    def say(self, line: str) -> None:
        raise AssertionError(line)

    def kill(self) -> None:
        raise AssertionError(self.argv)

    def end(self) -> CommandResult:
        raise TransportError("lost")


def hold(*failures: Exception, after_s: float = 600.0) -> tuple[Flaky, Hold]:
    host = Flaky(list(failures))
    return host, Hold(host, "/restore", Owner("campaign", "here"), after_s)


def test_a_host_that_was_lost_is_asked_whether_it_is_back_before_anything_else() -> None:
    host, held = hold(TransportError("lost"))
    with pytest.raises(TransportError, match="lost"):
        held.ask(["bos", "status"])
    held.ask(["bos", "status"])
    assert host.ran == [("bos", "status"), ("beat",), ("bos", "status")]


def test_a_host_that_was_lost_while_it_was_spoken_with_is_asked_too() -> None:
    """As one that was started anew: its last word may be of a moment ago, and yet not hold."""
    host, held = hold()
    held.change(["bos", "stop"])
    talk = held.converse(["engine"])
    assert talk.listen() is None
    with pytest.raises(TransportError, match="lost"):
        talk.end()
    host.ran.clear()
    held.change(["bos", "start"])
    assert host.ran == [("beat",), ("bos", "start")]


def test_whether_it_is_still_held_is_asked_before_changes_and_no_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that goes on while this process is asleep, and again when that was long ago."""
    now = 1000.0
    monkeypatch.setattr(holding, "_awake_s", lambda: now)
    host, held = hold()
    held.ask(["bos", "status"])
    assert host.ran == [("bos", "status")]
    for _ in range(2):
        now += 0.9 * TRUSTED_S  # twice that is too long, whatever was done between
        host.ran.clear()
        held.change(["bos", "stop"])
        held.run_long(["bos", "create"], run_id="r")
        held.put("/a", b"")
        changes = [("bos", "stop"), ("bos", "create"), ("write", "/a")]
        assert host.ran == [("beat",), *changes]
        now += 0.9 * TRUSTED_S
        host.ran.clear()
        held.change(["bos", "stop"])
        assert host.ran == [("bos", "stop")]


@pytest.mark.parametrize(
    ("status", "said", "put_back"),
    [
        (9, "fs9 has put itself back", False),
        (8, "fs9 was restarted while it was in use", True),
        (1, "heartbeat.sh: exit status 1: it says so", True),
    ],
)
def test_a_host_that_is_not_ours_or_not_itself_is_changed_no_more(
    status: int, said: str, put_back: bool
) -> None:
    host, held = hold()
    host.beats = status
    for _ in range(2):
        with pytest.raises(TestbedError, match=said):
            held.change(["bos", "stop"])
    held.settle()
    if put_back:
        held.change(["sh", "restore.sh"])
    else:
        with pytest.raises(TestbedError, match=said):
            held.change(["sh", "restore.sh"])
    assert (("sh", "restore.sh") in host.ran) is put_back
    assert ("bos", "stop") not in host.ran


@pytest.mark.slow
def test_a_host_that_stays_away_is_given_up() -> None:
    host, held = hold(*[TransportError(f"lost {n}") for n in range(4)], after_s=0.001)
    with pytest.raises(TransportError, match="lost 0"):
        held.change(["a"])
    with pytest.raises(TransportError, match=r"lost [12]"):
        held.change(["b"])
    assert ("b",) not in host.ran


def test_a_command_that_takes_too_long_does_not_make_its_host_lost() -> None:
    host, held = hold(CommandTimeout("fs9", ["cat"], "no end"))
    with pytest.raises(CommandTimeout):
        held.ask(["cat"])
    held.ask(["ls"])
    assert host.ran == [("cat",), ("ls",)]


def test_a_dead_connection_is_noticed_well_before_a_host_puts_itself_back() -> None:
    assert patience(1800.0) == Patience()
    for after_s in (6.0, 60.0, 600.0, 1800.0):
        found = patience(after_s)
        assert found.silence_s + found.connect_s < after_s / 2.0
        assert patience_s(after_s) <= after_s / 2.0


def test_what_is_kept_of_a_failure() -> None:
    result = CommandResult(("bos", "create", "a b"), 1, "", "bos: no\nsuch cell\n")
    failed = CommandFailed("fs9", result)
    told = {
        "host": "fs9",
        "command": "bos create 'a b'",
        "exit_status": 1,
        "output": "bos: no such cell",
    }
    assert evidence(failed) == {"failure": "command-failed", **told}
    outer = ConfigurationError("it does not start")
    outer.__cause__ = failed
    assert evidence(outer) == {"failure": "configuration", **told}
    assert evidence(TestbedError("gone")) == {"failure": "testbed"}
    assert evidence(KeyboardInterrupt()) == {}
