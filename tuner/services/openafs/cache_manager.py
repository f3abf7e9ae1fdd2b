"""The OpenAFS cache managers of a testbed's clients: their options, their cold caches.

Owns all clients together: they always run with the same tuned options. Every change begins with an
empty cache, and the same is how a cache is made cold. How a client is started is its own matter
(``client.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from search_spaces import Space, SpaceError
from tuner.errors import TestbedError
from tuner.hosts.connector import Connector, check, understood
from tuner.model import Value
from tuner.services.lasting import JournalState
from tuner.services.openafs import parse
from tuner.services.openafs.client import Client
from tuner.services.openafs.limits import memory_bytes
from tuner.services.openafs.parallel import on_all
from tuner.services.part import verify_effective

#: Debian's and Red Hat's.
_CACHE_INFO = ("/etc/openafs/cacheinfo", "/usr/vice/etc/cacheinfo")

T = TypeVar("T")


@dataclass(slots=True)
class CacheManager:
    """The cache managers under tuning, one a client. ``attach`` makes one of these for all."""

    clients: Sequence[Client]
    space: Space
    identity: str
    initial: Mapping[str, Value]
    facts: Mapping[str, int]
    #: The options of each client that the space does not know.
    rests: Sequence[tuple[str, ...]]
    #: The options in effect on every client; None while clients may differ.
    options_in_effect: tuple[str, ...] | None = field(default=None)

    @classmethod
    def attach(
        cls, clients: Sequence[Client], program: str, space: Space, *, alike: bool = True
    ) -> CacheManager:
        """Take over clients as they were found; nothing is changed.

        ``program``: what they run, for provenance. ``alike``: insist that all were found alike;
        they need not be when they are only put back, each to what it had. Raises TestbedError when
        their options cannot be read, or differ in what the space knows.
        """
        settings: list[Mapping[str, Value]] = []
        rests: list[tuple[str, ...]] = []
        for client in clients:
            try:
                parsed = space.parse(list(client.options))
            except SpaceError as problem:
                raise TestbedError(
                    f"{client.host.host}: the client's present options cannot be read: {problem}"
                ) from problem
            if alike and settings and parsed.values != settings[0]:
                raise TestbedError(
                    f"{client.host.host} and {clients[0].host.host} run with different options "
                    f"({parsed.values} and {settings[0]}); a testbed's clients must be alike"
                )
            settings.append(parsed.values)
            rests.append(parsed.rest)
        version = check(clients[0].host, ["fs", "-version"]).strip()
        return cls(clients, space, f"{program} {version}", settings[0], _facts(clients), rests)

    def apply(self, values: Mapping[str, Value]) -> str | None:
        """See Part.apply: a remount with an empty cache, unless these options are in effect."""
        options = tuple(self.space.render(values))
        if options == self.options_in_effect:
            self._on_all(lambda client, rest: client.refresh())
            return None
        self._mount(options)
        return "remount"

    def make_cold(self) -> None:
        """Empty every client's cache, its options unchanged.

        The surest way: the cache manager ends, its cache is wiped, a new one starts.
        """
        initial_options = tuple(self.space.render(self.initial))
        self._mount(initial_options if self.options_in_effect is None else self.options_in_effect)

    def restore(self) -> str:
        """See Part.restore."""
        self.options_in_effect = None
        return "; ".join(self._on_all(lambda client, rest: client.restore()))

    @property
    def outlives_restart(self) -> bool:
        """See LastingPart.outlives_restart."""
        return all(client.options_file is not None for client in self.clients)

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        if not self.outlives_restart:
            return "no file keeps them: put them into whatever mounts the client when it starts"
        files = dict.fromkeys(client.options_file for client in self.clients)
        return f"fstune writes them into {', '.join(map(str, files))} of every client"

    def journals(self, name: str) -> frozenset[JournalState]:
        """See LastingPart.journals."""
        return frozenset(self._on_all(lambda client, rest: client.journal.state(name)))

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        self._on_all(lambda client, rest: client.keep(name))

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        self._on_all(lambda client, rest: client.reopen(name))

    def incarnation(self) -> str:
        """See Part.incarnation: nothing starts it again, so a crash fails the workload by
        itself.
        """
        return ""

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: from the cache manager's own answers, for every client."""
        effective: dict[str, Value] = dict(values)
        for client in self.clients:
            effective = verify_effective(self.space, values, self.facts, client.effective())
        return effective

    def _mount(self, options: tuple[str, ...]) -> None:
        self.options_in_effect = None
        self._on_all(lambda client, rest: client.start((*rest, *options)))
        self.options_in_effect = options

    def _on_all(self, do: Callable[[Client, tuple[str, ...]], T]) -> list[T]:
        """The same on every client at once; the first failure when all have ended."""
        pairs = list(zip(self.clients, self.rests, strict=True))
        return on_all(pairs, lambda pair: do(*pair))


def _facts(clients: Sequence[Client]) -> dict[str, int]:
    """The limits of the hosts of all clients: the smallest of each."""
    each = [host_limits(client.host, client.cache) for client in clients]
    return {name: min(facts[name] for facts in each) for name in each[0]}


def host_limits(host: Connector, cache: str) -> dict[str, int]:
    """What a client's host allows, by the names that the space uses."""
    with understood(host.host):
        partition = check(host, ["stat", "--file-system", "--format=%S %b", cache]).split()
        return {
            "memory_bytes": memory_bytes(host),
            "cache_partition_bytes": int(partition[0]) * int(partition[1]),
            "cacheinfo_blocks": cache_info(host)[2],
        }


def cache_info(host: Connector) -> tuple[str, str, int]:
    """Mount point, cache directory and size in KiB, as the client's own file has them. Raises
    TestbedError when there is none that can be read.
    """
    usual, other = _CACHE_INFO
    result = host.ask(["cat", usual])
    text = result.stdout if result.status == 0 else check(host, ["cat", other])
    try:
        return parse.cache_info(text)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
