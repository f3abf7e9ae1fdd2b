"""The interface that the kernel client and afsd.fuse share: apply, read back, restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import Connector, check, check_change, failure_data
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.journal import Journal, script
from tuner.services.openafs.version import RunningVersion

#: The exit status of the scripts that start a client if it does not serve its volume afterwards.
_DOES_NOT_SERVE = 4


class Client(Protocol):
    """The cache manager of one client host."""

    @property
    def host(self) -> Connector:
        """The host that it runs on."""
        ...

    @property
    def cache(self) -> str:
        """Its cache directory."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """Its original options."""
        ...

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        ...

    @property
    def options_file(self) -> str | None:
        """The file from which it reads its options when its host boots; None if there is none."""
        ...

    def start(self, options: Sequence[str]) -> None:
        """Restart with these options and an empty cache; returns once the volume is visible.

        Raises ConfigurationError when it does not start with them, TestbedError when the old
        process does not exit.
        """
        ...

    def refresh(self) -> None:
        """Renew an ageing token; called before a workload. Raises TestbedError."""
        ...

    def keep(self, name: str) -> None:
        """Close its journal under a name in favour of what is in effect; see Journal.keep."""
        ...

    def effective(self) -> dict[str, Value]:
        """Return its settings in effect, by read-back key.

        Raises ConfigurationError when it is no longer running, and TestbedError if ``start`` has
        started another version than before.
        """
        ...

    def reopen(self, name: str) -> None:
        """Open its journal kept under a name, so that ``restore`` uses its record."""
        ...

    def changed_since(self, name: str, own: Callable[[Sequence[str]], Sequence[str]]) -> str:
        """A sentence on what somebody else has changed since the application ``name``, as far as
        ``restore`` would replace it; "" if that is nothing. ``own``: returns those of its options
        that are not tuned.
        """
        ...

    def restore(self) -> str:
        """Restore the original settings unless they are in effect; returns what was done."""
        ...


@dataclass(slots=True)
class ClientVersion(RunningVersion):
    """The version of a cache manager; ``is_due``: it was started, and not asked since."""

    is_due: bool = False

    def check(self, host: Connector, port: int) -> None:
        """Ask a cache manager that was started, once. It takes a few milliseconds.

        Raises TestbedError if its version is not the one before.
        """
        if self.is_due:
            self.is_due = False
            self.ask(host, "127.0.0.1", port, "the cache manager")


def versions(hosts: Sequence[Connector]) -> str:
    """The version of the clients on these hosts; if they differ, each of them.

    Raises TestbedError.
    """
    each = on_all(hosts, lambda host: check(host, ["fs", "-version"]).strip())
    return "; ".join(dict.fromkeys(each))


def remount(host: Connector, argv: Sequence[str], timeout_s: float, what: str) -> None:
    """Run a script that starts a client. ``what``: what is done to it, such as "mounted".

    Raises ConfigurationError when the client does not serve its volume, TestbedError when the
    script cannot start it for another reason.
    """
    result = host.change(argv, timeout_s=timeout_s)
    if result.status == _DOES_NOT_SERVE:
        message = f"the cache manager does not start: {result.tail}"
        raise ConfigurationError(message, failure_data(result, host.host))
    if result.status != 0:
        message = f"{host.host}: the client cannot be {what}: {result.tail}"
        raise TestbedError(message, failure_data(result, host.host))


def put_scripts(host: Connector, directory: str, *names: str) -> None:
    """Copy fstune's scripts to a directory on the host that only root may read."""
    check_change(host, ["mkdir", "--parents", "--mode=0700", directory])
    for name in names:
        host.put(f"{directory}/{name}", script(__package__, name), mode=0o700)
