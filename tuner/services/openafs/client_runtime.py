"""Runtime settings of the kernel clients of a testbed, as a part: the same on all clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Space
from tuner.errors import TestbedError
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.lasting import JournalState
from tuner.services.openafs.client import versions
from tuner.services.openafs.live import PROGRAM, LiveSettings
from tuner.services.part import verify_effective
from tuner.services.target import read_back


@dataclass(frozen=True, slots=True)
class ClientRuntime:
    """The runtime settings of all clients; see Part. Use ``attach`` to create an instance."""

    clients: Sequence[LiveSettings]
    space: Space
    identity: str
    initial: Mapping[str, Value]
    facts: Mapping[str, int]

    @classmethod
    def attach(
        cls, clients: Sequence[LiveSettings], space: Space, *, alike: bool = True
    ) -> ClientRuntime:
        """Combine clients with their original settings, without changing anything.

        ``alike``: require that all have the same settings. Raises TestbedError.
        """
        first = clients[0]
        for client in clients:
            if alike and client.settings != first.settings:
                raise TestbedError(
                    f"{client.host.host} and {first.host.host} run with different settings "
                    f"({client.settings} and {first.settings}); a testbed's clients must be alike"
                )
        version = versions([client.host for client in clients])
        return cls(clients, space, f"{PROGRAM} {version}", first.settings, {})

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        """See Part.apply: fs commands, and new connections when encryption changes."""

        def set_on(client: LiveSettings) -> bool:
            return client.set(values, anew=restart)

        return "set" if any(on_all(self.clients, set_on)) else None

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: queries all clients; encryption is that of their connections."""
        effective: dict[str, Value] = dict(values)
        for answers in on_all(self.clients, lambda client: client.effective()):
            effective = verify_effective(self.space, values, self.facts, answers)
        return effective

    def prove(self) -> None:
        """Verify, after a restart of the clients, that the last settings are in effect again.

        Raises ConfigurationError like ``read_back``.
        """
        read_back(self, self.clients[0].requested)

    def incarnation(self) -> str:
        """See Part.incarnation: restarts are detected for the cache manager."""
        return ""

    def restore(self) -> str:
        """See Part.restore."""
        return "; ".join(on_all(self.clients, lambda client: client.restore()))

    @property
    def how_changed(self) -> str:
        """See LastingPart.how_changed."""
        return "is changed while it runs"

    @property
    def outlives_restart(self) -> bool:
        """See LastingPart.outlives_restart."""
        return False

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        return "no file keeps them; let whatever starts the client run these fs commands afterwards"

    def journals(self, name: str) -> frozenset[JournalState]:
        """See LastingPart.journals."""
        return frozenset(on_all(self.clients, lambda client: client.journal.state(name)))

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        on_all(self.clients, lambda client: client.keep(name))

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        on_all(self.clients, lambda client: client.reopen(name))

    def changed_since(self, name: str) -> tuple[str, ...]:
        """See LastingPart.changed_since: ``initial`` shows everything."""
        return ()
