"""The client programs that are tuned, each behind the same few operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tuner.hosts.connector import Connector, check_change
from tuner.model import Value
from tuner.services.journal import Journal, script


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
        """Its options as found."""
        ...

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        ...

    @property
    def options_file(self) -> str | None:
        """The file that it reads its options from when its host starts; None for none."""
        ...

    def start(self, options: Sequence[str]) -> None:
        """Restart with these options and an empty cache; returns when the volume is visible.

        Raises ConfigurationError when it does not start with them, TestbedError when the old one
        does not end.
        """
        ...

    def refresh(self) -> None:
        """Before a workload: renew a token that grows old. Raises TestbedError."""
        ...

    def keep(self, name: str) -> None:
        """Close its journal under a name in favour of what is in effect; see Journal.keep."""
        ...

    def effective(self) -> dict[str, Value]:
        """Its settings in effect, by read-back key. Raises ConfigurationError when it does not run
        any more.
        """
        ...

    def reopen(self, name: str) -> None:
        """Open its journal that is kept under a name: its record is what ``restore`` puts back."""
        ...

    def restore(self) -> str:
        """Put back what was found, unless it is in effect; returns what was done."""
        ...


def put_scripts(host: Connector, directory: str, *names: str) -> None:
    """Put scripts of ours into a directory of the host that only its root may read."""
    check_change(host, ["mkdir", "--parents", "--mode=0700", directory])
    for name in names:
        host.put(f"{directory}/{name}", script(__package__, name), mode=0o700)
