"""What parts have in common whose settings no file keeps: each host has them while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from search_spaces import Space
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.lasting import JournalState
from tuner.services.openafs.kernel_limits import KernelLimits
from tuner.services.openafs.live import LiveSettings

#: The settings of one host.
T = TypeVar("T", LiveSettings, KernelLimits)


@dataclass(frozen=True, slots=True)
class LivePart(Generic[T]):
    """The settings of all hosts; see LastingPart."""

    hosts: Sequence[T]
    space: Space
    identity: str
    initial: Mapping[str, Value]
    facts: Mapping[str, int]

    def incarnation(self) -> str:
        """See Part.incarnation: restarts are detected elsewhere, for client or host."""
        return ""

    def restore(self) -> str:
        """See Part.restore."""
        return "; ".join(on_all(self.hosts, lambda host: host.restore()))

    @property
    def outlives_restart(self) -> bool:
        """See LastingPart.outlives_restart."""
        return False

    def journals(self, name: str) -> frozenset[JournalState]:
        """See LastingPart.journals."""
        return frozenset(on_all(self.hosts, lambda host: host.journal.state(name)))

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        on_all(self.hosts, lambda host: host.keep(name))

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        on_all(self.hosts, lambda host: host.reopen(name))

    def changed_since(self, name: str) -> tuple[str, ...]:
        """See LastingPart.changed_since: ``initial`` shows everything."""
        return ()
