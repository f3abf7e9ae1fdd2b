"""afsd.fuse on one client host: reading its settings, restarting and restoring it.

Its original options are those of the running process. For every change, one script on the host
unmounts it, wipes the cache and mounts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import (
    CommandFailed,
    CommandTimeout,
    Connector,
    check,
)
from tuner.model import Value
from tuner.services.journal import Journal, WithJournal, script
from tuner.services.openafs import parse
from tuner.services.openafs.client import ClientVersion, put_scripts, remount

PROGRAM = "afsd.fuse"

_REMOUNT, _RESTORE = "fuse-remount.sh", "fuse-restore.sh"
_DAEMONS, _FIND = "fuse-daemons.sh", "fuse-find.sh"
#: Longer than the script can take: two grace periods, a start and a first access.
_REMOUNT_TIMEOUT_S = 130.0
_ANSWER_TIMEOUT_S = 20.0
#: Prints the systemd service whose main process has this PID, if any. A process that was started
#: from a login over SSH or by another program is in a service too, but is not its main process.
_SERVICE = r"""
sed -n 's|.*/\([^/]*\.service\)$|\1|p' "/proc/$1/cgroup" | sort -u | while read -r unit; do
    [ "$(systemctl show --property=MainPID -- "$unit")" != "MainPID=$1" ] || echo "$unit"
done
"""


@dataclass(frozen=True, slots=True)
class FusePlace:
    """Where a client's cache manager is.

    ``mount``: its mount point; ``cache``: its cache directory; ``probe``: a path that is visible
    when it works; ``directory``: for files of fstune on that host.
    """

    mount: str
    cache: str
    probe: str
    directory: str


@dataclass(slots=True)
class FuseClient(WithJournal):
    """One afsd.fuse; see Client.

    ``command``: its original command line; ``program``: the absolute path of its executable.
    """

    host: Connector
    place: FusePlace
    command: tuple[str, ...]
    program: str
    version: ClientVersion = field(default_factory=ClientVersion)

    @classmethod
    def attach(cls, host: Connector, place: FusePlace) -> FuseClient:
        """Read the running cache manager, changing nothing except for adding fstune's scripts.

        If an interrupted run left a journal, it has the original command line and takes precedence.
        Raises TestbedError when there is neither, or when the mounted program cannot be trusted: it
        must be under the control of root alone, since it will be run as root.
        """
        journal = _journal(host, place)
        record = journal.read("command")
        if record is None:
            command, program = _running_daemon(host, place)
        else:
            command, program = record, check(host, ["cat", f"{journal.directory}/program"]).strip()
        put_scripts(host, place.directory, _DAEMONS, _REMOUNT)
        return cls(host, place, command, program)

    @property
    def cache(self) -> str:
        """See Client.cache."""
        return self.place.cache

    @property
    def options(self) -> tuple[str, ...]:
        """See Client.options."""
        return self.command[1:]

    @property
    def journal(self) -> Journal:
        """See Client.journal."""
        return _journal(self.host, self.place)

    @property
    def options_file(self) -> str | None:
        """See Client.options_file: whatever mounts it passes its options."""
        return None

    def start(self, options: Sequence[str]) -> None:
        """See Client.start."""
        place = self.place
        self._record()
        argv = ["sh", f"{place.directory}/{_REMOUNT}", place.mount, place.cache, place.probe]
        argv += [self.program, *options]
        self.version.is_due = True
        remount(self.host, argv, _REMOUNT_TIMEOUT_S, "mounted")

    def refresh(self) -> None:
        """See Client.refresh: it does not support tokens."""

    def keep(self, name: str) -> None:
        """See Client.keep."""
        self.journal.keep(name)
        self.recorded = False

    def effective(self) -> dict[str, Value]:
        """See Client.effective: queries the cache manager."""
        port = self._port()
        asking = ["cmdebug", "127.0.0.1", "-port", str(port), "-cache"]
        try:
            text = check(self.host, asking, timeout_s=_ANSWER_TIMEOUT_S)
            configuration = parse.cache_configuration(text)
        except (CommandTimeout, CommandFailed, ValueError) as problem:
            self._port()  # raises if it has exited meanwhile
            message = f"{self.host.host}: {PROGRAM} does not answer: {problem}"
            raise ConfigurationError(message) from problem
        self.version.check(self.host, port)
        return {f"cmdebug.{key}": value for key, value in configuration.items()}

    def _port(self) -> int:
        """Return the UDP port that it uses. Raises ConfigurationError if it is not running."""
        pids = frozenset(one.pid for one in _look(self.host, self.place).daemons)
        port = parse.udp_port_of(check(self.host, ["ss", "-uanpH"]), pids)
        if port is None:
            raise ConfigurationError(f"{self.host.host}: {PROGRAM} is no longer running")
        return port

    def reopen(self, name: str) -> None:
        """See Client.reopen."""
        self.journal.reopen(name)
        self.command = self.journal.read("command") or self.command

    def changed_since(self, name: str, own: Callable[[Sequence[str]], Sequence[str]]) -> str:
        """See Client.changed_since: no application changes the options that are not tuned."""
        record = self.journal.of_application(name).read("command")
        if record is None:
            return ""
        now, before = (tuple(own(options)) for options in (self.options, record[1:]))
        if now == before:
            return ""
        return (
            f"{self.host.host}: besides what is tuned, the options of {PROGRAM} are "
            f"{' '.join(now) or 'none'}, where {' '.join(before) or 'none'} were left"
        )

    def restore(self) -> str:
        """See Client.restore."""
        if self.recorded:
            self._begin()  # it may have been removed
        action = self.journal.restore() or "left as found"
        self.recorded = self.version.is_due = False
        return f"{PROGRAM} on {self.host.host} {action}: {' '.join(self.options)}"

    def _begin(self) -> bool:
        place = self.place
        words = {"mount": place.mount, "cache": place.cache, "probe": place.probe}
        words["program"] = self.program
        return self.journal.begin({"command": self.command}, words)


def _journal(host: Connector, place: FusePlace) -> Journal:
    return Journal(
        host, f"{place.directory}/cache_manager", __package__, _RESTORE, (_DAEMONS, _REMOUNT)
    )


def look(host: Connector, place: FusePlace) -> tuple[tuple[str, ...], str]:
    """The systemd services that the cache manager mounted there is the main process of, and why
    none there can be tuned, "" if one can. Raises TestbedError.
    """
    state = _look(host, place)
    units: list[str] = []
    for daemon in state.daemons:
        units += host.ask(["sh", "-c", _SERVICE, "sh", str(daemon.pid)]).stdout.split()
    return tuple(units), _problem(state, place)


@dataclass(frozen=True, slots=True)
class _Daemon:
    """A process of root that is the cache manager of a mount point."""

    pid: int
    program: str
    command: tuple[str, ...]


@dataclass(slots=True)
class _MountState:
    """The processes with the name of the cache manager on a host.

    ``others``: sentences about those that are not trusted. ``mount_owner``: the owner of the mount
    according to the kernel: ``root``, ``other`` or ``none``.
    """

    daemons: list[_Daemon] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    mount_owner: str = ""


def _running_daemon(host: Connector, place: FusePlace) -> tuple[tuple[str, ...], str]:
    """Return command line and program of the cache manager that is mounted there.

    Raises TestbedError unless exactly one can be trusted: any user may name a process afsd.fuse.
    """
    state = _look(host, place)
    if problem := _problem(state, place):
        raise TestbedError(f"{host.host}: {problem}")
    return state.daemons[0].command, state.daemons[0].program


def _problem(state: _MountState, place: FusePlace) -> str:
    """Why there is not exactly one cache manager that can be trusted, "" if there is."""
    if len(state.daemons) == 1 and state.mount_owner == "root":
        return ""
    message = f"no {PROGRAM} of root is mounted at {place.mount}"
    if len(state.daemons) > 1:
        numbers = ", ".join(str(one.pid) for one in state.daemons)
        message = f"more than one {PROGRAM} serves {place.mount} (processes {numbers})"
    if state.others:
        message += f"; not trusted: {'; '.join(state.others)}"
    return f"{message}: mount it as you want fstune to find and leave it"


def _look(host: Connector, place: FusePlace) -> _MountState:
    """Find the processes of that name. Raises TestbedError."""
    program = script(__package__, _DAEMONS) + script(__package__, _FIND)
    result = host.ask(["sh", "-s", PROGRAM, place.mount], input=program)
    if result.status != 0:
        raise CommandFailed(host.host, result)
    try:
        return _sight(result.stdout)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {_FIND}: cannot be parsed: {problem}") from problem


def _sight(text: str) -> _MountState:
    """Parse the output of the script. Raises ValueError if it is malformed."""
    state = _MountState()
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        subject, _, more = rest.partition(" ")
        match kind:
            case "mount":
                state.mount_owner = subject
            case "found":
                encoded, _, program = more.partition(" ")
                words = bytes.fromhex(encoded).decode(errors="replace").split("\0")
                state.daemons.append(_Daemon(int(subject), program, tuple(words[:-1])))
            case "decoy":
                state.others.append(f"process {int(subject)} is of user {more}, not of root")
            case "refused":
                state.others.append(f"process {int(subject)}: {more}")
            case _:
                raise ValueError(f"not a process: {line[:200]!r}")
    if not state.mount_owner:
        raise ValueError("its end is missing")
    return state
