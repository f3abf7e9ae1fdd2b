"""The lease of a host: a directory there, created atomically, that names the host's holder.

Owns taking it, which first restores what an earlier holder left behind.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.errors import ConflictError
from tuner.hosts import guard
from tuner.hosts.connector import CommandFailed, check, check_change, understood
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.put_back import restore_all
from tuner.identifiers import word

WATCH = "watch.sh"
#: In the restore directory: how long the holder may be silent, in seconds.
AFTER = "after_s"
_BUSY = 75
#: What the watch makes of a lease before it restores the host.
_EXPIRED = "lease.expired"
#: FRESH LEASE EXPIRED: makes FRESH the LEASE if there is none; not if a watch has just ended one,
#: since its restore, which waits for the lock, would end this one too.
_MOVE = r"""
mv --no-target-directory --no-clobber "$1" "$2"
[ -e "$1" ] || [ ! -e "$3" ] || mv --no-target-directory "$2" "$1"
"""
#: How long to wait for a host that is restoring itself.
_EXPIRED_S = 60.0
_AGAIN_S = 1.0
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a host: a campaign and the machine that runs it."""

    campaign: str
    machine: str

    def __post_init__(self) -> None:
        word(self.campaign, "campaign")  # it becomes part of a path on the host

    def __str__(self) -> str:
        return f"{self.campaign} {self.machine}"


@dataclass(frozen=True, slots=True)
class Lease:
    """One holder's lease of a host, taken or not. ``directory``: where it is on the host."""

    connector: SpeakingConnector
    directory: str
    owner: Owner
    after_s: float
    #: Distinguishes this hold from others of the same campaign, such as that of a hung process.
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    @property
    def mark(self) -> str:
        """The line that names the holder."""
        return f"{self.owner} {self.token}"

    @property
    def path(self) -> str:
        """The directory on the host."""
        return f"{self.directory}/lease"

    def take(self) -> None:
        """Take it once the host has restored itself, if it is doing that.

        Raises ConflictError when another campaign holds the host and has sent a recent heartbeat,
        TestbedError when the earlier holder's changes cannot be undone.
        """
        self._await_watch()
        if not self._make():
            self._take_over()

    def guarded(self, argv: Sequence[str], how: guard.LockUse) -> list[str]:
        """Wrap a command so that it runs only while the lease is ours; see ``guard.guarded``."""
        return guard.guarded(argv, self.directory, self.mark, how)

    def drop(self) -> None:
        """Remove it if it is ours, whatever was done of ``take``."""
        remove = ["rm", "--recursive", "--force", self.path]
        self.connector.change(self.guarded(remove, guard.LockUse.HOLD))

    def watch_log(self) -> str:
        """A clause with the last lines of the watch's log."""
        log = self.connector.ask(["tail", "--lines=3", f"{self.directory}/watch.log"])
        return f"its watch reports: {log.tail}"

    def _make(self) -> bool:
        """Create the lease atomically; False when there already is one."""
        fresh = f"{self.directory}/lease.{self.owner.campaign}"
        check_change(self.connector, ["mkdir", "--parents", "--mode=0700", fresh])
        self.connector.put(f"{fresh}/owner", f"{self.mark}\n".encode(), mode=0o600)
        boot = check(self.connector, ["cat", _BOOT])
        self.connector.put(f"{fresh}/boot", boot.encode(), mode=0o600)
        # So that the age of the lease is known from the start.
        self.connector.put(f"{fresh}/heartbeat", f"{self._up_s():.0f}\n".encode(), mode=0o600)
        # Wait for a restore that is under way, so that we start from the restored state.
        argv = ["flock", "--timeout", f"{_EXPIRED_S:.0f}", "--conflict-exit-code", f"{_BUSY}"]
        argv += [self.directory, "sh", "-c", _MOVE, "lease", fresh, self.path]
        moved = self.connector.change(
            [*argv, f"{self.directory}/{_EXPIRED}"], timeout_s=60.0 + _EXPIRED_S
        )
        if moved.status == _BUSY:
            raise ConflictError(f"{self.host} is being put back now; try again in a few minutes")
        if moved.status == 0 and self.connector.ask(["test", "-e", fresh]).status != 0:
            return True
        check_change(self.connector, ["rm", "--recursive", "--force", fresh])
        return False

    def _take_over(self) -> None:
        """Take over an abandoned lease. Its journals are restored first, unless the lease was this
        campaign's own: the journals then still hold the original state.
        """
        read = self.connector.ask(["cat", f"{self.path}/owner"])
        mark = read.stdout.strip()
        holder = mark.split()[:2]
        if read.status != 0:
            if self.connector.ask(["test", "-e", self.path]).status == 0:
                raise CommandFailed(self.host, read)
            self._await_watch()  # it has just ended the lease
        elif holder != str(self.owner).split():
            age_s = self._silence_s()
            # The holder may allow itself a longer silence than we do.
            if age_s is not None and age_s < max(self.after_s, self._holders_after_s()):
                raise ConflictError(
                    f"{self.host} is in use by campaign {' on '.join(holder)}, last seen "
                    f"{age_s:.0f} s ago; wait until it ends, or stop it there"
                )
            restore_all(self.connector, self.directory, mark)
        else:
            check_change(self.connector, ["rm", "--recursive", "--force", self.path])
        if not self._make():
            raise ConflictError(f"{self.host} was taken by another campaign at the same moment")

    def _silence_s(self) -> float | None:
        """Seconds since the last heartbeat; None if that was before a reboot or is unreadable. A
        container may be rebooted without its kernel: it then has been up for less than before.
        """
        boot = check(self.connector, ["cat", _BOOT])
        if self.connector.ask(["cat", f"{self.path}/boot"]).stdout != boot:
            return None
        heartbeat = self.connector.ask(["cat", f"{self.path}/heartbeat"]).stdout.strip()
        # An unreadable heartbeat is damaged and proves nothing.
        age_s = self._up_s() - float(heartbeat) if heartbeat.lstrip("-").isdigit() else -1.0
        return None if age_s < 0.0 else age_s

    def _holders_after_s(self) -> float:
        """How long the holder may be silent; 0 if that is not recorded."""
        text = self.connector.ask(["cat", f"{self.directory}/{AFTER}"]).stdout.strip()
        return float(text) if text.isdigit() else 0.0

    def _await_watch(self) -> None:
        """Wait for a host that is restoring itself; if its watch has died halfway through, finish
        the restore from here. Raises ConflictError when that takes too long.
        """
        expired = f"{self.directory}/{_EXPIRED}"
        deadline = time.monotonic() + _EXPIRED_S
        while self.connector.ask(["test", "-d", expired]).status == 0:
            if not self._watched():
                restore_all(self.connector, self.directory)
                check_change(self.connector, ["rm", "--recursive", "--force", expired])
            elif time.monotonic() > deadline:
                raise ConflictError(
                    f"{self.host} is putting itself back now; try again in a few minutes, or run: "
                    f"fstune testbed restore FILE; {self.watch_log()}"
                )
            else:
                time.sleep(_AGAIN_S)

    def _watched(self) -> bool:
        """Whether a watch runs on the host."""
        pid = self.connector.ask(["cat", f"{self.directory}/watch.pid"]).stdout.strip()
        return WATCH in self.connector.ask(["cat", f"/proc/{pid}/cmdline"]).stdout

    def _up_s(self) -> float:
        """Uptime of the host in seconds: unlike its clock, it is never adjusted."""
        with understood(self.host):
            return float(check(self.connector, ["cat", "/proc/uptime"]).split()[0])
