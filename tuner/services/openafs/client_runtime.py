"""Runtime settings of the kernel clients of a testbed, as a part: the same on all clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Space
from tuner.errors import TestbedError
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.openafs.client import versions
from tuner.services.openafs.live import PROGRAM, LiveSettings
from tuner.services.openafs.live_part import LivePart
from tuner.services.part import verify_effective
from tuner.services.target import read_back


@dataclass(frozen=True, slots=True)
class ClientRuntime(LivePart[LiveSettings]):
    """The runtime settings of all clients; see Part. Use ``attach`` to create an instance."""

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

        return "set" if any(on_all(self.hosts, set_on)) else None

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: queries all clients; encryption is that of their connections."""
        effective: dict[str, Value] = dict(values)
        for answers in on_all(self.hosts, lambda client: client.effective()):
            effective = verify_effective(self.space, values, self.facts, answers)
        return effective

    def prove(self) -> None:
        """Verify, after a restart of the clients, that the last settings are in effect again.

        Raises ConfigurationError like ``read_back``.
        """
        read_back(self, self.hosts[0].requested)

    @property
    def how_changed(self) -> str:
        """See LastingPart.how_changed."""
        return "is changed while it runs"

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        return "no file keeps them; let whatever starts the client run these fs commands afterwards"
