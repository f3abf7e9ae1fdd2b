"""afsd.fuse on one client host: found as it runs, started anew, put back.

Its options as found are those of the running process. Every change is unmount, wipe, mount, done
by one script on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.errors import ConfigurationError, TestbedError
from tuner.model import Value
from tuner.target.journal import Journal, script
from tuner.target.openafs import parse
from tuner.testbed.connector import CommandFailed, CommandTimeout, Connector, check, told

PROGRAM = "afsd.fuse"

_REMOUNT = "fuse-remount.sh"
_RESTORE = "fuse-restore.sh"
_DOES_NOT_SERVE = 4
#: Longer than the script takes at its slowest: two graces, a start and a first look.
_REMOUNT_TIMEOUT_S = 130.0
_ANSWER_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class FusePlace:
    """Where a client's cache manager is mounted, where it keeps its cache, a path that shows that
    it serves, and where fstune may keep its files on that host.
    """

    mount: str
    cache: str
    probe: str
    directory: str


@dataclass(slots=True)
class FuseClient:
    """One afsd.fuse; see Client. ``command``: program and options as found."""

    host: Connector
    place: FusePlace
    command: tuple[str, ...]
    recorded: bool = False

    @classmethod
    def attach(cls, host: Connector, place: FusePlace) -> FuseClient:
        """Read the cache manager as it runs; nothing is changed but a script of ours put there.

        A journal left by a run that was cut off says what was really found; then that counts.
        Raises TestbedError when there is neither.
        """
        command = _journal(host, place).read("command") or _running(host, place)
        if command is None:
            raise TestbedError(
                f"{host.host}: no {PROGRAM} is mounted at {place.mount}: mount it the way you want "
                "it to be found and left"
            )
        # It will be wiped.
        if (used := _cache_of(command) or place.cache) != place.cache:
            raise TestbedError(f"{host.host}: the cache of {PROGRAM} is {used}, not {place.cache}")
        check(host, ["mkdir", "--parents", "--mode=0700", place.directory])
        host.put(f"{place.directory}/{_REMOUNT}", script(_REMOUNT), mode=0o700)
        return cls(host, place, command)

    @property
    def cache(self) -> str:
        """See Client.cache."""
        return self.place.cache

    @property
    def options(self) -> tuple[str, ...]:
        """See Client.options."""
        return self.command[1:]

    def start(self, options: Sequence[str]) -> None:
        """See Client.start."""
        place = self.place
        self._record()
        argv = ["sh", f"{place.directory}/{_REMOUNT}", place.mount, place.cache, place.probe]
        argv += [self.command[0], *options]
        result = self.host.run(argv, timeout_s=_REMOUNT_TIMEOUT_S)
        if result.status == _DOES_NOT_SERVE:
            said = f"the cache manager does not start: {result.tail}"
            raise ConfigurationError(said, told(result, self.host.host))
        if result.status != 0:
            said = f"{self.host.host}: the client cannot be mounted: {result.tail}"
            raise TestbedError(said, told(result, self.host.host))

    def shown(self) -> dict[str, Value]:
        """See Client.shown: the cache manager's own answer."""
        port = parse.udp_port_of(check(self.host, ["ss", "-uanpH"]), PROGRAM)
        if port is None:
            raise ConfigurationError(f"{self.host.host}: {PROGRAM} does not run any more")
        asking = ["cmdebug", "127.0.0.1", "-port", str(port), "-cache"]
        try:
            text = check(self.host, asking, timeout_s=_ANSWER_TIMEOUT_S)
            found = parse.cache_configuration(text)
        except (CommandTimeout, CommandFailed, ValueError) as problem:
            said = f"{self.host.host}: {PROGRAM} does not answer: {problem}"
            raise ConfigurationError(said) from problem
        return {f"cmdebug.{key}": value for key, value in found.items()}

    def restore(self) -> str:
        """See Client.restore."""
        if self.recorded:
            self._begin()  # somebody may have removed it
        done = _journal(self.host, self.place).restore() or "left as found"
        self.recorded = False
        return f"{PROGRAM} on {self.host.host} {done}: {' '.join(self.options)}"

    def _record(self) -> None:
        """Before the first change: write down, on the host itself, what was found."""
        if not self.recorded:
            self._begin()
            self.recorded = True

    def _begin(self) -> None:
        place = self.place
        words = {"mount": place.mount, "cache": place.cache, "probe": place.probe}
        _journal(self.host, place).begin({"command": self.command}, words)


def _journal(host: Connector, place: FusePlace) -> Journal:
    return Journal(host, f"{place.directory}/cache_manager", _RESTORE, (_REMOUNT,))


def _cache_of(command: Sequence[str]) -> str | None:
    """The cache directory that a command line names."""
    values = [value for word, value in pairwise(command) if word == "-cachedir"]
    return values[0] if values else None


def _running(host: Connector, place: FusePlace) -> tuple[str, ...] | None:
    """The command line of the cache manager that is mounted there, None when there is none."""
    for pid in host.run(["pidof", PROGRAM]).stdout.split():
        shown = host.run(["cat", f"/proc/{pid}/cmdline"])
        command = tuple(shown.stdout.split("\0")[:-1])
        if shown.status == 0 and ("-mountdir" not in command or place.mount in command):
            return command
    return None
