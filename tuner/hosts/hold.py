"""A hold on a host: one campaign at a time, and a watch that puts the host back without us.

Owns the lease (a directory on the host that only one can make), its heartbeat, and the watch: a
script that runs on the host and restores it from its journals when the heartbeat stops for too
long. From that moment the lease is gone, and every command through the hold is refused: a host that
was put back must not be changed any more. So every command that changes something carries a guard
along (``guard.py``), which looks at the lease on the host itself, inside the lock that a put-back
takes too. A host that was started anew, or whose disk takes nothing any more, shows by the
heartbeat, which is renewed before a change when it is older than ``TRUSTED_S``.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

from tuner.errors import ConflictError, TestbedError, TransportError
from tuner.hosts import guard
from tuner.hosts.connector import (
    CommandFailed,
    CommandResult,
    CommandTimeout,
    check,
    check_change,
    understood,
    write_whole,
)
from tuner.hosts.conversation import Conversation, SpeakingConnector
from tuner.hosts.put_back import PUT_BACK, check_own, restore_all
from tuner.identifiers import word

_SCRIPTS = files("tuner.hosts") / "scripts"
_WATCH, _HEARTBEAT = "watch.sh", "heartbeat.sh"
_NOT_HELD, _RESTARTED, _BUSY = 9, 8, 75
#: For how long a host's word is taken that it was not started anew and can be written to.
TRUSTED_S = 2.0
#: Arguments of find that list the scripts of complete journals.
_JOURNALS = ("-mindepth", "2", "-name", "restore.sh", "-not", "-path", "*/.*")
#: A host that is just putting itself back is waited for so long.
_EXPIRED_S = 60.0
#: A host that does not answer is asked again so soon, and so long at most.
_AGAIN_S, _LONGEST_PATIENCE_S = 1.0, 300.0
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a host: a campaign, and the machine that runs it."""

    campaign: str
    machine: str

    def __post_init__(self) -> None:
        word(self.campaign, "campaign")  # it becomes part of a path on the host

    def __str__(self) -> str:
        return f"{self.campaign} {self.machine}"


@dataclass(slots=True)
class Hold:
    """A connector to a host that is held; see Connector. ``take`` makes one."""

    connector: SpeakingConnector
    directory: str
    owner: Owner
    after_s: float
    #: Tells this hold from any other of the same campaign, such as that of a process which hung.
    _token: str = field(default_factory=lambda: secrets.token_hex(8))
    _lost: threading.Event = field(default_factory=threading.Event)
    _restarted: threading.Event = field(default_factory=threading.Event)
    #: Whether all that is still to come is that it is put back; see ``settle``.
    _settling: bool = False
    #: When it was last asked for the lease and said that we have it, by ``_awake_s``.
    _confirmed_at: float = float("-inf")
    #: Since when it has not answered; None while it does.
    _away_since: float | None = None

    @classmethod
    def take(
        cls, connector: SpeakingConnector, directory: str, owner: Owner, after_s: float
    ) -> Hold:
        """Take the lease and start the watch. What an earlier holder left is put back first.

        Raises ConflictError when another campaign holds the host and was heard from lately,
        TestbedError when what was left cannot be put back.
        """
        hold = cls(connector, directory, owner, after_s)
        check_own(connector, directory)
        check_change(connector, ["mkdir", "--parents", "--mode=0700", directory])
        check_own(connector, directory)  # somebody may have been there between
        hold._await_watch()
        if not hold._make_lease():
            hold._take_over()
        for name in (_HEARTBEAT, _WATCH, PUT_BACK):
            connector.put(f"{directory}/{name}", _script(name), mode=0o700)
        connector.put(f"{directory}/after_s", f"{after_s:.0f}\n".encode(), mode=0o600)
        # A watch that is still there may wait for another time; the first sign of life starts ours.
        check_change(connector, ["rm", "--force", f"{directory}/watch.pid"])
        hold.beat()
        return hold

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.ask. Raises TestbedError once the host has put itself back, or was started
        anew: what was in effect there is not any more.

        After a lost connection the host is waited for, before anything else is asked of it.
        """
        with self._present(changes=False):
            return self.connector.ask(argv, input=input, timeout_s=timeout_s)

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.change; as ``ask``. While it runs nobody puts the host back."""
        with self._present():
            how = guard.How.SETTLING if self._settling else guard.How.HOLD
            guarded_argv = guard.guarded(argv, self.directory, self._mark, how)
            result = self.connector.change(guarded_argv, input=input, timeout_s=timeout_s)
            return self._let_in(result)

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long; as ``ask``. It is for workloads, which change nothing
        that is tuned: a put-back does not wait for its end.
        """
        with self._present():
            guarded_argv = guard.guarded(argv, self.directory, self._mark, guard.How.BEGIN)
            result = self.connector.run_long(guarded_argv, run_id=run_id, timeout_s=timeout_s)
            return self._let_in(result)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put; as ``change``."""
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        """See Connector.get; as ``ask``."""
        with self._present(changes=False):
            return self.connector.get(path)

    def converse(self, argv: Sequence[str]) -> Conversation:
        """See SpeakingConnector.converse; as ``run_long``."""
        with self._present():
            guarded_argv = guard.guarded(argv, self.directory, self._mark, guard.How.BEGIN)
            return _HoldConversation(self, self.connector.converse(guarded_argv))

    def beat(self) -> None:
        """Tell the host that we are there. Raises TestbedError when it is not ours any more, or was
        started anew, TransportError when it does not answer.
        """
        self._sign()
        self._check_hold()

    def _sign(self) -> None:
        now = _awake_s()
        result = self.connector.change(["sh", f"{self.directory}/{_HEARTBEAT}", self._mark])
        if result.status == _NOT_HELD:
            self._lost.set()
        elif result.status == _RESTARTED:
            self._restarted.set()
        elif result.status != 0:
            raise CommandFailed(self.host, result)
        else:
            self._confirmed_at = now

    def settle(self) -> None:
        """From now on the host is only put back: that it was started anew, or that nothing can be
        written there, is no reason against that.
        """
        self._settling = True

    def give_back(self) -> str | None:
        """End the lease, and the watch with it; what is still to be said, None when all is well.

        A host that could not be put back keeps both: its watch goes on trying.
        """
        if self._lost.is_set():
            return f"{self.host} has put itself back; {self._watch_log()}"
        if self.ask(["find", f"{self.directory}/restore", *_JOURNALS]).stdout.strip():
            return (
                f"{self.host} is not put back; it will try by itself in {self.after_s:.0f} s, or "
                "run: fstune testbed restore FILE"
            )
        check_change(self, ["rm", "--recursive", "--force", f"{self.directory}/lease"])
        return None

    @contextmanager
    def _present(self, *, changes: bool = True) -> Iterator[None]:
        """Wait for a host that did not answer, for as long as ``patience_s`` allows; what
        ``changes`` it is refused unless it says that we hold it.
        """
        self._check_hold()
        while (since := self._away_since) is not None:
            try:
                self._ask()
            except TransportError:
                if time.monotonic() - since > patience_s(self.after_s):
                    raise
                time.sleep(_AGAIN_S)
            else:
                self._away_since = None
        with self.noting():
            if changes and _awake_s() - self._confirmed_at > TRUSTED_S:
                self._ask()
            yield

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note when the host stops answering."""
        try:
            yield
        except CommandTimeout:
            raise  # it answered
        except TransportError:
            self._away_since = time.monotonic()
            raise

    def _ask(self) -> None:
        """Raise TestbedError unless we hold it."""
        try:
            self._sign()
        except CommandFailed:
            if not self._settling:
                raise
        self._check_hold()

    def _let_in(self, result: CommandResult) -> CommandResult:
        """What a command came to that its guard let begin. Raises TestbedError."""
        refusal = guard.refusal(result.stderr, self._mark)
        if refusal is guard.Refusal.NOT_HELD:
            self._lost.set()
            self._check_hold()
        if refusal is not None:
            raise TestbedError(f"{self.host}: another change is still under way there; see 'ps'")
        return result

    def _check_hold(self) -> None:
        if self._restarted.is_set() and not self._settling:
            raise TestbedError(
                f"{self.host} was restarted while it was in use: what was in effect there need not "
                "be so any more; see 'fstune resume'"
            )
        if self._lost.is_set():
            raise TestbedError(
                f"{self.host} has put itself back: it had not heard from fstune for "
                f"{self.after_s:.0f} s, or somebody restored it; see 'fstune resume'"
            )

    def _make_lease(self) -> bool:
        """Make the lease whole, or not at all; False when there is one."""
        fresh = f"{self.directory}/lease.{self.owner.campaign}"
        check_change(self.connector, ["mkdir", "--parents", "--mode=0700", fresh])
        self.connector.put(f"{fresh}/owner", f"{self._mark}\n".encode(), mode=0o600)
        boot = check(self.connector, ["cat", _BOOT])
        self.connector.put(f"{fresh}/boot", boot.encode(), mode=0o600)
        # From its first moment it is known how old it is.
        self.connector.put(f"{fresh}/heartbeat", f"{self._up_s():.0f}\n".encode(), mode=0o600)
        # Whoever is just putting the host back is waited for: what is found is what comes of that.
        argv = ["flock", "--timeout", f"{_EXPIRED_S:.0f}", "--conflict-exit-code", f"{_BUSY}"]
        argv += [self.directory, "mv", "--no-target-directory", "--no-clobber", fresh]
        moved = self.connector.change(
            [*argv, f"{self.directory}/lease"], timeout_s=60.0 + _EXPIRED_S
        )
        if moved.status == _BUSY:
            raise ConflictError(f"{self.host} is just being put back; try again in a few minutes")
        if moved.status == 0 and self.connector.ask(["test", "-e", fresh]).status != 0:
            return True
        check_change(self.connector, ["rm", "--recursive", "--force", fresh])
        return False

    def _take_over(self) -> None:
        """Take a lease that its holder has left. Its journals are put back first, unless it was
        ours: then they say what was found.
        """
        mark = check(self.connector, ["cat", f"{self.directory}/lease/owner"]).strip()
        present = mark.split()[:2]
        if present != str(self.owner).split():
            age_s = self._silence_s()
            if age_s is not None and age_s < self.after_s:
                raise ConflictError(
                    f"{self.host} is in use by campaign {' on '.join(present)}, heard from "
                    f"{age_s:.0f} s ago; wait for its end, or stop it there"
                )
            restore_all(self.connector, self.directory, mark)
        else:
            lease = f"{self.directory}/lease"
            check_change(self.connector, ["rm", "--recursive", "--force", lease])
        if not self._make_lease():
            raise ConflictError(f"{self.host} was taken by another campaign at the same moment")

    def _silence_s(self) -> float | None:
        """How long the lease's holder has been silent; None since before a reboot."""
        boot = check(self.connector, ["cat", _BOOT])
        if self.connector.ask(["cat", f"{self.directory}/lease/boot"]).stdout != boot:
            return None
        heartbeat = self.connector.ask(["cat", f"{self.directory}/lease/heartbeat"]).stdout.strip()
        # One that cannot be read was damaged: nobody can be heard by it.
        return self._up_s() - float(heartbeat) if heartbeat.lstrip("-").isdigit() else None

    def _await_watch(self) -> None:
        """Wait for a host that is just putting itself back. When what did so there has ended in
        the middle, go on in its place. Raises ConflictError when that takes long.
        """
        expired = f"{self.directory}/lease.expired"
        deadline = time.monotonic() + _EXPIRED_S
        while self.connector.ask(["test", "-d", expired]).status == 0:
            if not self._watched():
                restore_all(self.connector, self.directory)
                check_change(self.connector, ["rm", "--recursive", "--force", expired])
            elif time.monotonic() > deadline:
                message = f"{self.host} is just putting itself back; try again in a few minutes"
                raise ConflictError(f"{message}; {self._watch_log()}")
            else:
                time.sleep(_AGAIN_S)

    def _watched(self) -> bool:
        """Whether a watch runs on the host."""
        pid = self.connector.ask(["cat", f"{self.directory}/watch.pid"]).stdout.strip()
        return _WATCH in self.connector.ask(["cat", f"/proc/{pid}/cmdline"]).stdout

    def _up_s(self) -> float:
        """Since when the host is up: nobody sets that, as clocks are set."""
        with understood(self.host):
            return float(check(self.connector, ["cat", "/proc/uptime"]).split()[0])

    @property
    def _mark(self) -> str:
        """What stands in the lease."""
        return f"{self.owner} {self._token}"

    def _watch_log(self) -> str:
        log = self.connector.ask(["tail", "--lines=3", f"{self.directory}/watch.log"])
        return f"its watch says: {log.tail}"


def _awake_s() -> float:
    """A clock that nobody sets and that goes on while this machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def patience_s(after_s: float) -> float:
    """How long a host that does not answer is waited for, when it puts itself back ``after_s``."""
    return min(_LONGEST_PATIENCE_S, after_s / 2.0)


@dataclass(frozen=True, slots=True)
class _HoldConversation:
    """A conversation with a host that is held; see Conversation."""

    hold: Hold
    talk: Conversation

    def listen(self) -> str | None:
        return self.talk.listen()

    def say(self, line: str) -> None:
        self.talk.say(line)

    def kill(self) -> None:
        self.talk.kill()

    def end(self) -> CommandResult:
        """A connection that was lost meanwhile may be that of a host which starts anew."""
        with self.hold.noting():
            return self.hold._let_in(self.talk.end())


def _script(name: str) -> bytes:
    return (_SCRIPTS / name).read_bytes()
