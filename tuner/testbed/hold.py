"""A hold on a host: one campaign at a time, and a watch that puts the host back without us.

Owns the lease (a directory on the host that only one can make), its heartbeat, and the watch: a
script that runs on the host and restores it from its journals when the heartbeat stops for too
long. From that moment the lease is gone, and every command through the hold is refused: a host that
was put back must not be changed any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files

from tuner.errors import ConflictError, TestbedError, TransportError
from tuner.testbed.connector import (
    CommandFailed,
    CommandResult,
    CommandTimeout,
    Connector,
    check,
)
from tuner.testbed.conversation import Conversation, SpeakingConnector

_SCRIPTS = files("tuner.testbed") / "scripts"
_WATCH, _HEARTBEAT = "watch.sh", "heartbeat.sh"
_NOT_HELD = 9
#: What is told to find, to list the scripts of journals that are complete.
_JOURNALS = ("-mindepth", "2", "-name", "restore.sh", "-not", "-path", "*/.*")
_RESTORE_TIMEOUT_S = 330.0
#: A host that does not answer is asked again so soon, and so long at most.
_AGAIN_S, _LONGEST_PATIENCE_S = 1.0, 300.0
_LONGEST_BEAT_S = 30.0
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a host: a campaign, and the machine that runs it."""

    campaign: str
    machine: str

    def __str__(self) -> str:
        return f"{self.campaign} {self.machine}"


@dataclass(slots=True)
class Hold:
    """A connector to a host that is held; see Connector. ``take`` makes one."""

    connector: SpeakingConnector
    directory: str
    owner: Owner
    after_s: float
    _lost: threading.Event = field(default_factory=threading.Event)
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
        check(connector, ["mkdir", "--parents", "--mode=0700", directory])
        if not hold._make_lease():
            hold._take_over()
        hold._write(_HEARTBEAT, mode=0o700)
        hold._write(_WATCH, mode=0o700)
        connector.put(f"{directory}/after_s", f"{after_s:.0f}\n".encode(), mode=0o600)
        hold.beat()
        check(connector, ["sh", f"{directory}/{_WATCH}", "start"])
        return hold

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.run. Raises TestbedError once the host has put itself back.

        After a lost connection the host is waited for, before anything else is asked of it.
        """
        with self._present():
            return self.connector.run(argv, input=input, timeout_s=timeout_s)

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long; as ``run``."""
        with self._present():
            return self.connector.run_long(argv, run_id=run_id, timeout_s=timeout_s)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put; as ``run``."""
        with self._present():
            self.connector.put(path, content, mode)

    def get(self, path: str) -> bytes:
        """See Connector.get; as ``run``."""
        with self._present():
            return self.connector.get(path)

    def converse(self, argv: Sequence[str]) -> Conversation:
        """See SpeakingConnector.converse; as ``run``."""
        with self._present():
            return self.connector.converse(argv)

    def beat(self) -> None:
        """Tell the host that we are there. Raises TestbedError when it does not know us any more,
        TransportError when it does not answer.
        """
        result = self.connector.run(["sh", f"{self.directory}/{_HEARTBEAT}", str(self.owner)])
        if result.status == _NOT_HELD:
            self._lost.set()
        elif result.status != 0:
            raise CommandFailed(self.host, result)
        self._check_held()

    def give_back(self) -> str | None:
        """End the lease, and the watch with it; what is still to be said, None when all is well.

        A host that could not be put back keeps both: its watch goes on trying.
        """
        if self._lost.is_set():
            return f"{self.host} has put itself back; {self._watch_log()}"
        if self.run(["find", f"{self.directory}/restore", *_JOURNALS]).stdout.strip():
            return (
                f"{self.host} is not put back; it will try by itself in {self.after_s:.0f} s, or "
                "run: fstune testbed restore FILE"
            )
        check(self.connector, ["rm", "--recursive", "--force", f"{self.directory}/lease"])
        return None

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Wait for a host that did not answer, for as long as ``patience_s`` allows; note when it
        stops answering.
        """
        self._check_held()
        while (since := self._away_since) is not None:
            try:
                self.connector.run(["true"])
            except TransportError:
                if time.monotonic() - since > patience_s(self.after_s):
                    raise
                time.sleep(_AGAIN_S)
            else:
                self._away_since = None
        try:
            yield
        except CommandTimeout:
            raise  # it answered
        except TransportError:
            self._away_since = time.monotonic()
            raise

    def _check_held(self) -> None:
        if self._lost.is_set():
            raise TestbedError(
                f"{self.host} has put itself back: it had not heard from fstune for "
                f"{self.after_s:.0f} s, or somebody restored it; see 'fstune resume'"
            )

    def _make_lease(self) -> bool:
        """Make the lease whole, or not at all; False when there is one."""
        fresh = f"{self.directory}/lease.{self.owner.campaign}"
        check(self.connector, ["mkdir", "--parents", "--mode=0700", fresh])
        self.connector.put(f"{fresh}/owner", f"{self.owner}\n".encode(), mode=0o600)
        boot = check(self.connector, ["cat", _BOOT])
        self.connector.put(f"{fresh}/boot", boot.encode(), mode=0o600)
        lease = f"{self.directory}/lease"
        moved = self.connector.run(["mv", "--no-target-directory", "--no-clobber", fresh, lease])
        if moved.status == 0 and self.connector.run(["test", "-e", fresh]).status != 0:
            return True
        check(self.connector, ["rm", "--recursive", "--force", fresh])
        return False

    def _take_over(self) -> None:
        """Take a lease that its holder has left. Its journals are put back first, unless it was
        ours: then they say what was found.
        """
        present = check(self.connector, ["cat", f"{self.directory}/lease/owner"]).strip()
        if present != str(self.owner):
            age_s = self._silence_s()
            if age_s is not None and age_s < self.after_s:
                raise ConflictError(
                    f"{self.host} is in use by campaign {present.replace(' ', ' on ')}, heard from "
                    f"{age_s:.0f} s ago; wait for its end, or stop it there"
                )
            restore_all(self.connector, self.directory)
        check(self.connector, ["rm", "--recursive", "--force", f"{self.directory}/lease"])
        if not self._make_lease():
            raise ConflictError(f"{self.host} was taken by another campaign at the same moment")

    def _silence_s(self) -> float | None:
        """For how long nothing was heard of the lease's holder; None since before a reboot."""
        boot = check(self.connector, ["cat", _BOOT])
        if self.connector.run(["cat", f"{self.directory}/lease/boot"]).stdout != boot:
            return None
        heard = self.connector.run(["cat", f"{self.directory}/heartbeat"])
        if heard.status != 0:
            return 0.0  # it is about to begin
        up = check(self.connector, ["cat", "/proc/uptime"]).split()[0]
        return float(up) - float(heard.stdout)

    def _watch_log(self) -> str:
        said = self.connector.run(["tail", "--lines=3", f"{self.directory}/watch.log"])
        return f"its watch says: {said.tail}"

    def _write(self, name: str, mode: int) -> None:
        content = (_SCRIPTS / name).read_bytes()
        self.connector.put(f"{self.directory}/{name}", content, mode)


def patience_s(after_s: float) -> float:
    """How long a host that does not answer is waited for, when it puts itself back ``after_s``."""
    return min(_LONGEST_PATIENCE_S, after_s / 2.0)


class Heartbeats:
    """Keeps holds alive until it is closed, each from a thread of its own: a host that does not
    answer must not let the others wait.
    """

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._beat, args=(hold,), daemon=True) for hold in holds
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop; returns when the last beats have ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _beat(self, hold: Hold) -> None:
        while not self._stop.wait(min(_LONGEST_BEAT_S, hold.after_s / 10.0)):
            # A lost connection shows in the campaign's own commands, and the next beat may get
            # through; a lost hold is noted by the hold itself.
            with suppress(TestbedError):
                hold.beat()


def restore_all(connector: Connector, directory: str) -> list[str]:
    """Put a host back from all journals below ``directory``; a sentence for each.

    Raises CommandFailed, with what the script said, when one cannot be put back.
    """
    found = connector.run(["find", f"{directory}/restore", *_JOURNALS])
    said: list[str] = []
    for script in sorted(found.stdout.split()):
        result = connector.run(["sh", script], timeout_s=_RESTORE_TIMEOUT_S)
        if result.status != 0:
            raise CommandFailed(connector.host, result)
        part = script.rpartition("/")[0]
        check(connector, ["rm", "--recursive", "--force", part])
        said.append(f"{part.rpartition('/')[2]} on {connector.host} {result.stdout.strip()}")
    return said
