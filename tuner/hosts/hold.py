"""A hold on a host: exclusive use by one campaign, and a watch that restores the host on its own.

Owns the lease (a directory on the host, created atomically), its heartbeat, and the watch: a script
that runs on the host and restores it from its journals when no heartbeat has arrived for too long.
The lease is then gone, and every command through the hold is refused, because a restored host must
not be changed any more. Every command that changes something is therefore wrapped in a guard
(``guard.py``), which checks the lease on the host itself, under the lock that a restore also takes.
The heartbeat also detects a host that was rebooted or whose disk can no longer be written to; it is
renewed before a change when the last one is older than ``TRUSTED_S``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files

from tuner.errors import TestbedError, TransportError
from tuner.hosts import guard
from tuner.hosts.connector import (
    CommandFailed,
    CommandResult,
    CommandTimeout,
    Connector,
    check_change,
    write_whole,
)
from tuner.hosts.conversation import Conversation, SpeakingConnector
from tuner.hosts.lease import AFTER, WATCH, EndRuns, HostLease, Owner
from tuner.hosts.restore_all import RESTORE_ALL, check_own

_SCRIPTS = files("tuner.hosts") / "scripts"
_HEARTBEAT = "heartbeat.sh"
_NOT_HELD, _RESTARTED = 9, 8
#: How long a confirmed heartbeat proves that the host was not rebooted and is writable.
TRUSTED_S = 2.0
#: Arguments of find that list the scripts of complete journals. By name, not by path: a journal is
#: incomplete if its own name begins with a dot, wherever the directory is.
_JOURNALS = ("-maxdepth", "2", "-name", ".*", "-prune", "-o", "-name", "restore.sh", "-print")
#: Interval and upper limit of retries against a host that does not answer.
_AGAIN_S, _LONGEST_PATIENCE_S = 1.0, 300.0


@dataclass(slots=True)
class Hold:
    """A connector to a leased host; see Connector. Create one with ``take``."""

    lease: HostLease
    #: The campaign from which the host was taken over, see ``HostLease.take``.
    predecessor: str = ""
    _lost: threading.Event = field(default_factory=threading.Event)
    _restarted: threading.Event = field(default_factory=threading.Event)
    #: Whether the host is only going to be restored from now on; see ``only_restore``.
    _only_restores: bool = False
    #: When the host last confirmed our lease, on the clock of ``_awake_s``.
    _confirmed_at: float = float("-inf")
    #: When the host stopped answering (``time.monotonic``); None while it answers.
    _away_since: float | None = None

    @classmethod
    def take(
        cls,
        connector: SpeakingConnector,
        directory: str,
        owner: Owner,
        after_s: float,
        end_runs: EndRuns = lambda *_: None,
    ) -> Hold:
        """Take the lease and start the watch, first restoring what an earlier holder left behind.

        ``end_runs``: see HostLease. Raises InUseError when somebody else holds the host and may be
        alive, TestbedError when the earlier holder's changes cannot be undone.
        """
        hold = cls(HostLease(connector, directory, owner, after_s, end_runs))
        check_own(connector, directory)
        check_change(connector, ["mkdir", "--parents", "--mode=0700", directory])
        check_own(connector, directory)  # it may have been created in the meantime
        # Any process that can open it can lock it and prevent every change and restore.
        check_change(connector, ["chmod", "0700", directory])
        try:
            hold.predecessor = hold.lease.take()
            for name in (_HEARTBEAT, WATCH, RESTORE_ALL):
                connector.put(f"{directory}/{name}", _script(name), mode=0o700)
            connector.put(f"{directory}/{AFTER}", f"{after_s:.0f}\n".encode(), mode=0o600)
            # It takes over from a running watch, which may use another timeout.
            check_change(connector, ["sh", f"{directory}/{WATCH}", "start"])
            hold.beat()
        except TransportError:
            raise
        except BaseException:
            hold._abandon()
            raise
        return hold

    @property
    def connector(self) -> SpeakingConnector:
        """The connector to the host, which does not check the lease."""
        return self.lease.connector

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.ask. Raises TestbedError once the host has restored itself or was rebooted,
        since the configuration is then no longer in effect.

        After a lost connection, waits for the host to come back before running anything else.
        """
        with self._present(changes=False):
            return self.connector.ask(argv, input=input, timeout_s=timeout_s)

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.change and ``ask``. The host is not restored while the command runs."""
        with self._present():
            how = guard.LockUse.RESTORING if self._only_restores else guard.LockUse.HOLD
            guarded_argv = self.lease.guarded(argv, how)
            result = self.connector.change(guarded_argv, input=input, timeout_s=timeout_s)
            return self._let_in(result)

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long and ``ask``. For workloads, which do not change any tuned
        setting: a restore does not wait for them.
        """
        with self._present():
            guarded_argv = self.lease.guarded(argv, guard.LockUse.BEGIN)
            result = self.connector.run_long(guarded_argv, run_id=run_id, timeout_s=timeout_s)
            return self._let_in(result)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put and ``change``."""
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        """See Connector.get and ``ask``."""
        with self._present(changes=False):
            return self.connector.get(path)

    def converse(self, argv: Sequence[str]) -> Conversation:
        """See SpeakingConnector.converse and ``run_long``."""
        with self._present():
            guarded_argv = self.lease.guarded(argv, guard.LockUse.BEGIN)
            return _HoldConversation(self, self.connector.converse(guarded_argv))

    def beat(self) -> None:
        """Send a heartbeat. Raises TestbedError when the lease was lost or the host was rebooted,
        TransportError when it does not answer.
        """
        self._sign()
        self._check_hold()

    def _sign(self) -> None:
        now = _awake_s()
        result = self.connector.change(
            ["sh", f"{self.lease.directory}/{_HEARTBEAT}", self.lease.mark]
        )
        if result.status == _NOT_HELD:
            self._lost.set()
        elif result.status == _RESTARTED:
            self._restarted.set()
        elif result.status != 0:
            raise CommandFailed(self.host, result)
        else:
            self._confirmed_at = now

    def only_restore(self) -> None:
        """Declare that the host is only going to be restored from now on, which is still allowed
        after a reboot or when nothing can be written there.
        """
        self._only_restores = True

    def give_back(self) -> str | None:
        """End the lease, and with it the watch. Returns a warning, or None when all is well.

        A host that could not be restored keeps both, so that its watch goes on trying.
        """
        if self._lost.is_set():
            return f"{self.host} has restored itself; {self.lease.watch_log()}"
        if has_journals(self, self.lease.directory):
            return (
                f"{self.host} has not been restored; it will try on its own in "
                f"{self.lease.after_s:.0f} s, or run: fstune testbed restore FILE"
            )
        check_change(self, ["rm", "--recursive", "--force", self.lease.path])
        return None

    def _abandon(self) -> None:
        """Drop the lease, unless the host must still be restored."""
        with suppress(TestbedError):
            if not has_journals(self, self.lease.directory):
                self.lease.drop()

    @contextmanager
    def _present(self, *, changes: bool = True) -> Iterator[None]:
        """Wait up to ``patience_s`` for a host that did not answer. Before a body that ``changes``
        the host, confirm that we still hold it.
        """
        self._check_hold()
        while (since := self._away_since) is not None:
            try:
                self._confirm_lease()
            except TransportError:
                if time.monotonic() - since > patience_s(self.lease.after_s):
                    raise
                time.sleep(_AGAIN_S)
            else:
                self._away_since = None
        with self.noting():
            if changes and _awake_s() - self._confirmed_at > TRUSTED_S:
                self._confirm_lease()
            yield

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record the time when the host stops answering."""
        try:
            yield
        except CommandTimeout:
            raise  # it answered
        except TransportError:
            self._away_since = time.monotonic()
            raise

    def _confirm_lease(self) -> None:
        """Ask the host for the lease. Raises TestbedError unless we hold it."""
        try:
            self._sign()
        except CommandFailed:
            if not self._only_restores:
                raise
        self._check_hold()

    def _let_in(self, result: CommandResult) -> CommandResult:
        """Return the result of a guarded command. Raises TestbedError if its guard refused it."""
        refusal = guard.refusal(result.stderr, self.lease.mark)
        if refusal is not None and refusal.reason is guard.Reason.NOT_HELD:
            self._lost.set()
            self._check_hold()
        if refusal is not None:
            who = f": {refusal.processes}" if refusal.processes else "; see 'ps'"
            raise TestbedError(f"{self.host}: another change is still under way there{who}")
        return result

    def _check_hold(self) -> None:
        if self._restarted.is_set() and not self._only_restores:
            raise TestbedError(
                f"{self.host} was restarted while it was in use: the settings in effect there may "
                f"have changed; {self.lease.owner.advice}"
            )
        if self._lost.is_set():
            raise TestbedError(
                f"{self.host} has restored itself: fstune was silent for "
                f"{self.lease.after_s:.0f} s, or somebody restored it; {self.lease.owner.advice}"
            )


def has_journals(host: Connector, directory: str) -> bool:
    """Whether a host has not been restored; also if that cannot be told."""
    journals = f"{directory}/restore"
    listing = host.ask(["find", journals, *_JOURNALS])
    if listing.status == 0:
        return bool(listing.stdout.strip())
    return host.ask(["test", "-e", journals]).status == 0


def _awake_s() -> float:
    """Seconds on a clock that is never adjusted and keeps running while this machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def patience_s(after_s: float) -> float:
    """How long to wait for an unresponsive host that restores itself after ``after_s`` seconds."""
    return min(_LONGEST_PATIENCE_S, after_s / 2.0)


@dataclass(frozen=True, slots=True)
class _HoldConversation:
    """A conversation with a command on a leased host; see Conversation."""

    hold: Hold
    talk: Conversation

    def listen(self) -> str | None:
        return self.talk.listen()

    def say(self, line: str) -> None:
        self.talk.say(line)

    def kill(self) -> None:
        self.talk.kill()

    def end(self) -> CommandResult:
        """See Conversation.end. A lost connection is recorded, since the host may be rebooting."""
        with self.hold.noting():
            return self.hold._let_in(self.talk.end())


def _script(name: str) -> bytes:
    return (_SCRIPTS / name).read_bytes()
