"""Assembly of a testbed: parts, engine and probes, independent of how hosts are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import search_spaces
from search_spaces import Space
from tuner.errors import SpecError
from tuner.hosts.connector import Connector
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.parallel import on_all
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.driver import ClientEngine
from tuner.measure.references import ReferencePlan, install_references
from tuner.measure.together import Together
from tuner.measure.workload import Workload
from tuner.services.host_state import host_state
from tuner.services.journal import Journal
from tuner.services.openafs import fuse, kernel_client, volumes
from tuner.services.openafs.bosserver import FileserverPlace
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.client import Client
from tuner.services.openafs.client_runtime import ClientRuntime
from tuner.services.openafs.counters import client_probe, server_probe
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.fuse import FuseClient, FusePlace
from tuner.services.openafs.host_network import HostNetwork, bound
from tuner.services.openafs.kernel_client import KernelClient, KernelPlace
from tuner.services.openafs.live import LiveSettings
from tuner.services.openafs.option_file import SERVER_FILES, check_unset
from tuner.services.part import Part
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed

_FILESERVER = "dafileserver"
_RUNTIME = "openafs-client-runtime"
#: Prefix of the mount points of a fileserver's partitions.
_PARTITIONS = "/vicep"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are on the hosts of a testbed.

    ``directory``: for files of fstune; ``path``: where the clients see the volume. ``page_cache``:
    description of what happens to the server's page cache before cold reads. ``volumes``: those
    that the workload may use.
    """

    directory: str
    path: str
    server: FileserverPlace
    page_cache: str
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientHost:
    """A client host and the place of its cache manager."""

    host: SpeakingConnector
    place: FusePlace | KernelPlace

    @property
    def program(self) -> str:
        """The client program."""
        return fuse.PROGRAM if isinstance(self.place, FusePlace) else kernel_client.PROGRAM

    def attach(self) -> Client:
        """Attach to the cache manager without changing it. Raises TestbedError."""
        if isinstance(self.place, FusePlace):
            return FuseClient.attach(self.host, self.place)
        return KernelClient.attach(self.host, self.place)


@dataclass(frozen=True, slots=True)
class Requirements:
    """A campaign's requirements on an OpenAFS testbed.

    The search space of each part; None for a part that is not tuned.
    """

    fileserver: Space | None
    cache_manager: Space
    references: tuple[ReferencePlan, ...] = ()
    client_runtime: Space | None = None
    host_network: Space | None = None


def usual_requirements(program: str) -> Requirements:
    """Return the most that a usual campaign requires: all packaged OpenAFS search spaces.

    Kernel limits are not included, since they affect everything on a host: campaigns must ask for
    them explicitly. ``program``: the client program.
    """
    client = {kernel_client.PROGRAM: "linux", fuse.PROGRAM: "fuse"}[program]
    return Requirements(
        search_spaces.load("openafs-fileserver-1.8"),
        search_spaces.load(f"openafs-cache-manager-{client}-1.8"),
        client_runtime=search_spaces.load(_RUNTIME) if program == kernel_client.PROGRAM else None,
    )


def assemble(
    server: Connector,
    clients: Sequence[ClientHost],
    layout: Layout,
    requirements: Requirements,
    work: Workload,
    *,
    alike: bool = True,
    kernels: Sequence[Connector] = (),
    down: bool = False,
) -> ReadyTestbed:
    """Read the settings of the programs, and install engine and probes on the hosts.

    Changes no settings. ``alike``: see ``CacheManager.attach``; ``kernels``: the hosts that have
    their own kernel. ``down``: the fileserver is down since a run was cut off while it changed it;
    it is restored from its journal, since whatever follows uses its volumes.
    """
    if down:
        script = "fileserver-restore.sh"
        Journal(server, layout.server.journal, __package__, script).restore(layout.server.restore_s)
    hosts = [client.host for client in clients]
    place = (layout.directory, layout.path)
    references = install_references(hosts[0], *place, requirements.references, work)
    parts: dict[str, Part] = {}
    follows: dict[str, str] = {}
    network: HostNetwork | None = None
    if requirements.host_network is not None:
        directory = layout.server.directory
        network = HostNetwork.attach(kernels, directory, requirements.host_network, alike=alike)
        parts["host_network"] = network
    if requirements.fileserver is not None:
        if alike:
            check_unset(server, SERVER_FILES, "fileserver", requirements.fileserver)
        fileserver = Fileserver.attach(server, layout.server, requirements.fileserver)
        parts["fileserver"] = fileserver
        if network is not None and bound(fileserver, network):
            follows["fileserver"] = "host_network"
    program = clients[0].program
    caches = [client.attach() for client in clients]
    cache = CacheManager.attach(caches, program, requirements.cache_manager, alike=alike)
    parts["cache_manager"] = cache
    make_cold = cache.make_cold
    if requirements.client_runtime is not None:
        space = requirements.client_runtime
        lives = [_live(client, layout, space, silent=not alike) for client in caches]
        runtime = ClientRuntime.attach(lives, space, alike=alike)
        parts["client_runtime"] = runtime
        make_cold = partial(_make_cold, cache, runtime)
    else:
        for client in caches:
            _keep_initial(client, layout)
    alone = len(hosts) == 1
    engine = (
        ClientEngine.install(hosts[0], *place, work)
        if alone
        else Together.install(hosts, *place, work)
    )
    watch = Watch(
        work.spec,
        (server_probe(server, server.host, _FILESERVER, layout.server.address),),
        tuple(client_probe(host, host.host, program, layout.directory) for host in hosts),
        layout.page_cache,
    )
    paths = [(), *((client.place.cache,) for client in clients)]
    prefixes = [(_PARTITIONS,), *(() for _ in clients)]
    everything = list(zip([server, *hosts], paths, prefixes, strict=True))
    states = tuple(on_all(everything, lambda one: host_state(*one)))
    if network is not None:
        states = tuple(state.without(network.tuned) for state in states)
    target = Target(parts, follows=follows)
    why_unusable = partial(volumes.why_unusable, server, layout.server.address, layout.volumes)
    return ReadyTestbed(
        target, engine, make_cold, watch, references, states, cache.distrust, why_unusable
    )


def _make_cold(cache: CacheManager, runtime: ClientRuntime) -> None:
    """Empty every client's cache, and verify the runtime settings again. Raises ConfigurationError.

    Emptying the caches restarts the clients, which loses these settings, and the next stage is
    measured as well.
    """
    cache.make_cold()
    runtime.prove()


def _live(client: Client, layout: Layout, space: Space, *, silent: bool) -> LiveSettings:
    """Attach to the runtime settings of a client; they are set again after each restart.

    ``silent``: see ``LiveSettings.attach``. Raises SpecError for a client that does not accept fs
    commands.
    """
    if not isinstance(client, KernelClient):
        raise SpecError(f"spaces.client_runtime: {client.host.host} runs no client in the kernel")
    client.live = LiveSettings.attach(
        client.host, space, client.tokens, _place(client, layout), silent=silent
    )
    return client.live


def _keep_initial(client: Client, layout: Layout) -> None:
    """Make a client preserve untuned runtime settings that a restart would lose.

    They are set again after each restart. A client that does not answer is only being restored, so
    that is not an error.
    """
    if not isinstance(client, KernelClient):
        return
    space = search_spaces.load(_RUNTIME)
    place = _place(client, layout)
    live = LiveSettings.attach(client.host, space, client.tokens, place, silent=True, tuned=False)
    if live.lost_by_start:
        client.live = live


def _place(client: KernelClient, layout: Layout) -> tuple[str, str, str]:
    return client.place.directory, layout.server.address, layout.path
