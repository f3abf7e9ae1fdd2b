"""From hosts to a bench: the same parts, engine and probes, however the hosts are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from search_spaces import Space
from tuner.measure.diagnostics.probe import Probe
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.driver import Engine
from tuner.measure.references import ReferencePlan, install_references
from tuner.measure.together import Together
from tuner.measure.workload import Workload
from tuner.target.openafs.cache_manager import CacheManager
from tuner.target.openafs.fileserver import Fileserver, FileserverPlace
from tuner.target.openafs.fuse import PROGRAM, FuseClient, FusePlace
from tuner.target.part import Part
from tuner.target.target import Target
from tuner.testbed.connector import Connector
from tuner.testbed.conversation import SpeakingConnector
from tuner.testbed.testbed import Bench

_FILESERVER = "dafileserver"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are on the hosts of a testbed.

    ``directory``: for what fstune puts there; ``path``: where the clients see the volume.
    ``page_cache``: what becomes of the server's before cold reads, in words.
    """

    directory: str
    path: str
    server: FileserverPlace
    page_cache: str


@dataclass(frozen=True, slots=True)
class FuseHost:
    """A client host and its cache manager."""

    host: SpeakingConnector
    place: FusePlace


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a campaign wants of a testbed. ``fileserver``: None to leave the server alone."""

    fileserver: Space | None
    cache_manager: Space
    references: tuple[ReferencePlan, ...] = ()


def assemble(
    server: Connector, clients: Sequence[FuseHost], layout: Layout, wanted: Wanted, work: Workload
) -> Bench:
    """Read the programs as they are and put engine and probes on the hosts; nothing is changed."""
    hosts = [client.host for client in clients]
    place = (layout.directory, layout.path)
    references = install_references(hosts[0], *place, wanted.references, work)
    parts: dict[str, Part] = {}
    if wanted.fileserver is not None:
        parts["fileserver"] = Fileserver.attach(server, layout.server, wanted.fileserver)
    fuse = [FuseClient.attach(client.host, client.place) for client in clients]
    cache = CacheManager.attach(fuse, PROGRAM, wanted.cache_manager)
    parts["cache_manager"] = cache
    alone = len(hosts) == 1
    engine = (
        Engine.install(hosts[0], *place, work) if alone else Together.install(hosts, *place, work)
    )
    watch = Watch(
        work.spec,
        (Probe.server(server, server.host, _FILESERVER, layout.server.address),),
        tuple(Probe.client(host, host.host, PROGRAM, layout.directory) for host in hosts),
        layout.page_cache,
    )
    return Bench(Target(parts), engine, cache.make_cold, watch, references)
