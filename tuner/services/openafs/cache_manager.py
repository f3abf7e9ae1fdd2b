"""The OpenAFS cache managers of a testbed's clients: setting options, and emptying caches.

All clients always run with the same tuned options. Every change of options restarts the clients
with empty caches, and caches are made cold in the same way. ``client.py`` has the interface that
starts a single client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TypeVar

from search_spaces import Space, SpaceError
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import CommandResult, Connector, check, understood
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.lasting import JournalState
from tuner.services.openafs import parse
from tuner.services.openafs.client import Client, versions
from tuner.services.openafs.limits import memory_bytes
from tuner.services.openafs.option_file import CLIENT_FILES, PLACES, check_unset
from tuner.services.part import verify_effective

#: The paths of Debian and Red Hat.
_CACHE_INFO = ("/etc/openafs/cacheinfo", "/usr/vice/etc/cacheinfo")

T = TypeVar("T")


@dataclass(slots=True)
class CacheManager:
    """The tuned cache managers of all clients. Use ``attach`` to create an instance."""

    clients: Sequence[Client]
    space: Space
    identity: str
    initial: Mapping[str, Value]
    facts: Mapping[str, int]
    #: The options of each client that are not in the space.
    rests: Sequence[tuple[str, ...]]
    #: The options in effect on every client; None while clients may differ.
    options_in_effect: tuple[str, ...] | None = field(default=None)
    #: Whether a client may have died since.
    is_doubtful: bool = False

    @classmethod
    def attach(
        cls, clients: Sequence[Client], program: str, space: Space, *, alike: bool = True
    ) -> CacheManager:
        """Attach to clients, reading their original settings, without changing anything.

        ``program``: the program that they run, for provenance. ``alike``: require that all have the
        same original settings; this is not needed when each is only restored to its own. Raises
        TestbedError when their options cannot be read, are also in its configuration file, or
        differ in options of the space, or when a client's cache is not the directory that would be
        wiped.
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
            if alike:  # what restores a client has checked it before the first change
                check_unset(client.host, CLIENT_FILES, "afsd", space, PLACES)
                _check_cache(client, parsed.rest)
            settings.append(parsed.values)
            rests.append(parsed.rest)
        identity = f"{program} {versions([client.host for client in clients])}"
        return cls(clients, space, identity, settings[0], _facts(clients), rests)

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        """See Part.apply: a remount with an empty cache, unless these options are in effect."""
        options = tuple(self.space.render(values))
        if not restart and options == self.options_in_effect and self._all_answer():
            self._on_all(lambda client, rest: client.refresh())
            return None
        self._mount(options)
        return "remount"

    def make_cold(self) -> None:
        """Empty every client's cache without changing its options.

        Uses the most reliable method: stop the cache manager, wipe its cache, and start it again.
        """
        initial_options = tuple(self.space.render(self.initial))
        self._mount(initial_options if self.options_in_effect is None else self.options_in_effect)

    def distrust(self) -> None:
        """See ReadyTestbed.distrust."""
        self.is_doubtful = True

    def _all_answer(self) -> bool:
        """Whether every client runs, as far as that is in doubt."""
        doubtful, self.is_doubtful = self.is_doubtful, False
        try:
            if doubtful:
                self._on_all(lambda client, rest: client.effective())
        except ConfigurationError:
            return False
        return True

    def restore(self) -> str:
        """See Part.restore."""
        self.options_in_effect = None
        return "; ".join(self._on_all(lambda client, rest: client.restore()))

    @property
    def how_changed(self) -> str:
        """See LastingPart.how_changed."""
        return "is restarted"

    @property
    def outlives_restart(self) -> bool:
        """See LastingPart.outlives_restart."""
        return all(client.options_file is not None for client in self.clients)

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        if not self.outlives_restart:
            return "no file keeps them; add them to whatever starts the client"
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

    def changed_since(self, name: str) -> tuple[str, ...]:
        """See LastingPart.changed_since."""

        def own(options: Sequence[str]) -> Sequence[str]:
            return self.space.parse(list(options)).rest

        return tuple(filter(None, self._on_all(lambda client, _: client.changed_since(name, own))))

    def incarnation(self) -> str:
        """See Part.incarnation: nothing restarts a crashed client, so the workload fails then."""
        return ""

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: queries the cache manager of every client."""
        effective: dict[str, Value] = dict(values)
        for answer in self._on_all(lambda client, rest: client.effective()):
            effective = verify_effective(self.space, values, self.facts, answer)
        return effective

    def _mount(self, options: tuple[str, ...]) -> None:
        self.options_in_effect = None
        self._on_all(lambda client, rest: client.start((*rest, *options)))
        self.options_in_effect = options

    def _on_all(self, do: Callable[[Client, tuple[str, ...]], T]) -> list[T]:
        """Call ``do`` for all clients in parallel; raises the first failure after all are done."""
        pairs = list(zip(self.clients, self.rests, strict=True))
        return on_all(pairs, lambda pair: do(*pair))


def _check_cache(client: Client, rest: Sequence[str]) -> None:
    """Raise TestbedError unless the directory that would be wiped is the client's cache.

    ``rest``: its options with their full names, as its own parser understands them.
    """
    values = dict(pairwise(rest))
    cache, source = values.get("-cachedir"), "its option -cachedir"
    if cache is None:
        cache, source = cache_info(client.host, values.get("-confdir"))[1], "its cacheinfo file"
    if PurePosixPath(cache) != PurePosixPath(client.cache):
        raise TestbedError(
            f"{client.host.host}: the client's cache is {cache}, according to {source}, and not "
            f"{client.cache}, which would be wiped: correct the cache in the testbed file"
        )


def _facts(clients: Sequence[Client]) -> dict[str, int]:
    """The limits of the clients' hosts: for each limit the smallest value."""
    each = [host_limits(client.host, client.cache) for client in clients]
    return {name: min(facts[name] for facts in each) for name in each[0]}


def host_limits(host: Connector, cache: str) -> dict[str, int]:
    """The limits of a client's host, by the names that the space uses."""
    with understood(host.host):
        partition = check(host, ["stat", "--file-system", "--format=%S %b", cache]).split()
        return {
            "memory_bytes": memory_bytes(host),
            "cache_partition_bytes": int(partition[0]) * int(partition[1]),
            # What restores a client asks too, and must not be refused.
            "cacheinfo_blocks": _read_cache_info(host, _CACHE_INFO)[2],
        }


def cache_info(host: Connector, directory: str | None = None) -> tuple[str, str, int]:
    """Mount point, cache directory and cache size in KiB from the client's cacheinfo file.

    ``directory``: where the client's configuration is, if not at the usual places. Raises
    TestbedError when there is no readable one, or when those at the usual places differ: which one
    counts is compiled into the client.
    """
    if directory is not None:
        return _read_cache_info(host, (f"{directory}/cacheinfo",))
    texts = [
        result.stdout.strip() for path in _CACHE_INFO if not (result := _cat(host, path)).status
    ]
    if len(set(texts)) > 1:
        raise TestbedError(
            f"{host.host}: {' and '.join(_CACHE_INFO)} differ ({' and '.join(map(repr, texts))}), "
            "and the client reads only one of them: remove the other one, left over from another "
            "client, or give both the same content"
        )
    return _read_cache_info(host, _CACHE_INFO)


def _read_cache_info(host: Connector, paths: Sequence[str]) -> tuple[str, str, int]:
    """Parse the first of these files that is there."""
    result = next((one for path in paths[:-1] if not (one := _cat(host, path)).status), None)
    text = check(host, ["cat", paths[-1]]) if result is None else result.stdout
    try:
        return parse.cache_info(text)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem


def _cat(host: Connector, path: str) -> CommandResult:
    return host.ask(["cat", path])
