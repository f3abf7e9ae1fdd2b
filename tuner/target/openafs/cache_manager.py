"""The OpenAFS cache manager of a private cell's clients: afsd.fuse, its options, its cold cache.

Owns the mounts of all clients of a testbed together: they always run with the same options. Every
change is unmount, wipe, mount; the same is how a cache is made cold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from deploy.cell import CellError, MountError, Node
from deploy.cell.client import CACHE_DIRECTORY, CACHE_INFO, mount, unmount
from search_spaces import Space, SpaceError
from tuner.errors import ConfigurationError, TestbedError
from tuner.model import Value
from tuner.target.openafs import parse
from tuner.target.openafs.fileserver import memory_bytes
from tuner.target.part import verified
from tuner.testbed.connector import check
from tuner.testbed.node import NodeConnector

_PROGRAM = "afsd.fuse"


@dataclass(slots=True)
class CacheManager:
    """The cache managers under tuning, one a client. ``attach`` makes one of these for all."""

    nodes: Sequence[Node]
    space: Space
    identity: str
    original: tuple[str, ...]
    found: Mapping[str, Value]
    facts: Mapping[str, int]
    rest: tuple[str, ...]
    #: Options in effect on every client; None while they may differ from client to client.
    mounted: tuple[str, ...] | None = field(default=None)

    @classmethod
    def attach(cls, nodes: Sequence[Node], original: Sequence[str], space: Space) -> CacheManager:
        """Take over clients that were brought up with the options ``original``; nothing is changed.

        Raises TestbedError when those options cannot be read.
        """
        try:
            parsed = space.parse(list(original))
        except SpaceError as problem:
            raise TestbedError(
                f"the clients' present options cannot be read: {problem}"
            ) from problem
        host = NodeConnector(nodes[0])
        partition = check(
            host, ["stat", "--file-system", "--format=%S %b", CACHE_DIRECTORY]
        ).split()
        facts = {
            "memory_bytes": memory_bytes(host),
            "cache_partition_bytes": int(partition[0]) * int(partition[1]),
            "cacheinfo_blocks": int(CACHE_INFO.strip().rpartition(":")[2]),
        }
        version = check(host, ["fs", "-version"])
        identity = f"{_PROGRAM} {version.strip()}"
        return cls(nodes, space, identity, tuple(original), parsed.values, facts, parsed.rest)

    def apply(self, values: Mapping[str, Value]) -> str | None:
        """See Part.apply: a remount with an empty cache, unless these options are in effect."""
        options = (*self.rest, *self.space.render(values))
        if options == self.mounted:
            return None
        self._mount(options)
        return "remount"

    def make_cold(self) -> None:
        """Empty every client's cache, its options unchanged.

        The surest way: the cache manager ends, its cache is wiped, a new one starts.
        """
        self._mount(self.original if self.mounted is None else self.mounted)

    def restore(self) -> str:
        """See Part.restore."""
        if self.mounted == self.original:
            return f"{_PROGRAM} left with its original options: {' '.join(self.original)}"
        self._mount(self.original)
        return f"{_PROGRAM} mounted again with its original options: {' '.join(self.original)}"

    def incarnation(self) -> str:
        """See Part.incarnation: nothing starts it again, so a crash fails the workload by
        itself.
        """
        return ""

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: from the cache manager's own answers, for every client."""
        effective: dict[str, Value] = dict(values)
        for node in self.nodes:
            effective = verified(self.space, values, self.facts, self._shown(node))
        return effective

    def _shown(self, node: Node) -> dict[str, Value]:
        host = NodeConnector(node)
        port = parse.udp_port_of(check(host, ["ss", "-uanpH"]), _PROGRAM)
        if port is None:
            raise ConfigurationError(f"{host.host}: {_PROGRAM} does not run any more")
        text = check(host, ["cmdebug", "127.0.0.1", "-port", str(port), "-cache"])
        try:
            shown = parse.cache_configuration(text)
        except ValueError as problem:
            raise TestbedError(f"{host.host}: {problem}") from problem
        return {f"cmdebug.{key}": value for key, value in shown.items()}

    def _mount(self, options: tuple[str, ...]) -> None:
        self.mounted = None

        def remount(node: Node) -> None:
            unmount(node)
            mount(node, options)

        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(remount, self.nodes))
        except MountError as problem:
            raise ConfigurationError(f"the cache manager does not start: {problem}") from problem
        except (CellError, TimeoutError) as problem:
            raise TestbedError(f"the clients cannot be mounted again: {problem}") from problem
        self.mounted = options
