"""The lease of a host: a directory there, created atomically, that names the host's holder.

Owns taking it, which first restores what an earlier holder left behind.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tuner.errors import ConflictError, InUseError, SpecError, TestbedError
from tuner.holders import is_gone, this_process
from tuner.hosts import guard
from tuner.hosts.connector import CommandFailed, check, check_change, understood
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.restore_all import restore_all
from tuner.identifiers import is_application_id, word
from tuner.model import Holder

WATCH = "watch.sh"
#: In the restore directory: how long the holder may be silent, in seconds.
AFTER = "after_s"
_BUSY = 75
#: The last word of the line that names a holder, if it is a verification.
_VERIFICATION = "verification"
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
#: Silence in seconds after which another machine may continue the same campaign. Heartbeats are at
#: most 30 s apart. The database usually allows it only after so long; a copy of the database knows
#: nothing of a process that uses the original.
_DEAD_S = 120.0
#: DIRECTORY PID: whether that is the watch. Process IDs are reused, and anybody may name a process
#: watch.sh, but only we can be in the directory.
_IS_WATCH = r"""
[ -O "/proc/$2" ] && [ "/proc/$2/cwd" -ef "$1" ] && grep -qs 'watch\.sh' "/proc/$2/cmdline"
"""
#: Ends the workloads of a campaign on a host: connector, restore directory, campaign.
EndRuns = Callable[[SpeakingConnector, str, str], None]
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a host: a campaign or an application, and the machine that runs it.

    ``verifies``: the campaign is a verification.
    """

    campaign: str
    machine: str
    verifies: bool = False

    def __post_init__(self) -> None:
        word(self.campaign, "campaign")  # it becomes part of a path on the host

    def __str__(self) -> str:
        return f"{self.campaign} {self.machine}"

    @property
    def advice(self) -> str:
        """What to do when it has lost a host; a clause."""
        if is_application_id(self.campaign):
            return "see 'fstune applications' for what is in force"
        return f"see 'fstune {'verify' if self.verifies else 'resume'}'"


@dataclass(frozen=True, slots=True)
class HostLease:
    """One holder's lease of a host, taken or not. ``directory``: where it is on the host;
    ``end_runs``: is called for an earlier holder that has died, whose workloads may go on.
    """

    connector: SpeakingConnector
    directory: str
    owner: Owner
    after_s: float
    end_runs: EndRuns = field(default=lambda *_: None)
    #: The process that holds the host.
    holder: Holder = field(default_factory=this_process)
    #: Distinguishes this hold from others of the same campaign, such as that of a hung process.
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    @property
    def mark(self) -> str:
        """The line that names the holder."""
        return f"{self.owner} {self.token}{f' {_VERIFICATION}' if self.owner.verifies else ''}"

    @property
    def path(self) -> str:
        """The directory on the host."""
        return f"{self.directory}/lease"

    def take(self) -> str:
        """Take it once the host has restored itself, if it is doing that. Return the other campaign
        from which it was taken over, whose runs may have left files; "" if there was none.

        Raises InUseError when somebody else holds the host and may be alive, TestbedError when
        the earlier holder's changes cannot be undone.
        """
        self._await_watch()
        return "" if self._make() else self._take_over()

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
        process = f"{self.holder.machine} {self.holder.pid} {self.holder.start_ticks}\n"
        self.connector.put(f"{fresh}/process", process.encode(), mode=0o600)
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
            raise InUseError(f"{self.host} is being restored now; try again in a few minutes")
        if moved.status == 0 and self.connector.ask(["test", "-e", fresh]).status != 0:
            return True
        check_change(self.connector, ["rm", "--recursive", "--force", fresh])
        return False

    def _take_over(self) -> str:
        """Take over an abandoned lease; see ``take``. Its journals are restored first, unless the
        lease was this campaign's own: the journals then still hold the original state.
        """
        read = self.connector.ask(["cat", f"{self.path}/owner"])
        mark = read.stdout.strip()
        campaign, machine, _, what, *_ = *mark.split(), "", "", "", ""
        others = ""
        if read.status != 0:
            if self.connector.ask(["test", "-e", self.path]).status == 0:
                raise CommandFailed(self.host, read)
            self._await_watch()  # it has just ended the lease
        elif campaign == self.owner.campaign:
            if machine != self.owner.machine:
                self._await_silence(machine)
            check_change(self.connector, ["rm", "--recursive", "--force", self.path])
        else:
            # The holder may allow itself a longer silence than we do.
            age_s = self._live_s(max(self.after_s, self._holders_after_s()))
            if age_s is not None:
                raise InUseError(_in_use(self.host, campaign, machine, what, age_s))
            # A campaign that is not a word was never ours, and there may be no runs to end.
            with suppress(TestbedError, SpecError):
                self.end_runs(self.connector, self.directory, campaign)
            restore_all(self.connector, self.directory, mark)
            others = campaign
        if not self._make():
            raise InUseError(f"{self.host} was taken by another campaign at the same moment")
        return others

    def _await_silence(self, machine: str) -> None:
        """Wait until another machine that ran the same campaign counts as dead. Raises
        InUseError if it sends a heartbeat.
        """
        before_s = 0.0
        while (age_s := self._live_s(_DEAD_S)) is not None:
            if age_s < before_s:
                raise InUseError(
                    f"{self.host} is in use by the same campaign on {machine}, which sends "
                    "heartbeats; end it there first"
                )
            before_s = age_s
            time.sleep(_AGAIN_S)
        self._await_watch()  # it may have ended the lease meanwhile

    def _live_s(self, limit_s: float) -> float | None:
        """Seconds since the last heartbeat of a holder that may be alive; None if it has been
        silent for ``limit_s`` or its process is known to have ended.
        """
        holder = self._holder()
        if holder is not None and is_gone(holder):
            return None
        age_s = self._silence_s()
        return None if age_s is None or age_s >= limit_s else age_s

    def _holder(self) -> Holder | None:
        """The process that holds the host; None if the lease, which may be of an earlier release,
        does not say.
        """
        words = self.connector.ask(["cat", f"{self.path}/process"]).stdout.split()
        match words:
            case [machine, pid, ticks] if pid.isdecimal() and ticks.isdecimal():
                return Holder("", machine, int(pid), int(ticks))
        return None

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
                    f"{self.host} is restoring itself now; try again in a few minutes, or run: "
                    f"fstune testbed restore FILE; {self.watch_log()}"
                )
            else:
                time.sleep(_AGAIN_S)

    def _watched(self) -> bool:
        """Whether a watch runs on the host."""
        pid = self.connector.ask(["cat", f"{self.directory}/watch.pid"]).stdout.strip()
        argv = ["sh", "-c", _IS_WATCH, "sh", self.directory, pid]
        return pid.isdecimal() and self.connector.ask(argv).status == 0

    def _up_s(self) -> float:
        """Uptime of the host in seconds: unlike its clock, it is never adjusted."""
        with understood(self.host):
            return float(check(self.connector, ["cat", "/proc/uptime"]).split()[0])


def _in_use(host: str, campaign: str, machine: str, what: str, age_s: float) -> str:
    kind, end = "campaign", f"fstune resume {campaign}, or "
    if is_application_id(campaign):
        # It may have been killed before it was stored.
        kind, end = "application", f"fstune rollback {campaign} if there is one, or "
    elif what == _VERIFICATION:  # it cannot be resumed
        kind, end = what, ""
    return (
        f"{host} is in use by {kind} {campaign} on {machine}, last seen {age_s:.0f} s ago; wait "
        f"until it ends, or if its process has died: {end}fstune testbed restore FILE"
    )
