"""A fileserver and its clients as a testbed of real hosts: inspection, assembly and dry run."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from search_spaces import Space
from search_spaces.sampling import Chance, draw
from tuner.errors import TestbedError, WorkloadError
from tuner.hosts.connections import Hosts
from tuner.hosts.dry import DryConnector
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.parallel import on_each
from tuner.measure.workload import Workload
from tuner.measure.workload_run import run_once
from tuner.services.facts import HostFacts, host_facts
from tuner.services.hosts import Assemble, HeldHosts
from tuner.services.kind import Finding, Rehearsal
from tuner.services.openafs import cache_manager
from tuner.services.openafs.assembly import ClientHost, Layout, Requirements, assemble
from tuner.services.openafs.bosserver import USUAL_STOP_S, FileserverPlace
from tuner.services.openafs.facts import ServerFacts, client_facts, server_facts, token_place
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.fuse import FusePlace
from tuner.services.openafs.host_network import HostNetwork, possible
from tuner.services.openafs.kernel_client import KernelPlace
from tuner.services.openafs.limits import server_limits
from tuner.services.openafs.preflight import preflight
from tuner.services.openafs.testbed_file import ClientSection, FuseSection, TestbedFile
from tuner.services.testbed import ReadyTestbed

#: The number of random configurations from which the largest memory use is estimated.
_DRAWS = 300
_PAGE_CACHE = "kept: the server's page cache is left alone"
#: How long a fileserver in use may take to stop: until bosserver itself kills it.
_LASTING_STOP_S = 1800


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts about the hosts of a testbed, and reasons against changing them."""

    server: HostFacts
    programs: ServerFacts
    clients: tuple[HostFacts, ...]
    findings: tuple[Finding, ...]


class HostsTestbed(HeldHosts[TestbedFile]):
    """A fileserver and clients of a testbed file."""

    def __init__(
        self,
        file: TestbedFile,
        base: Path,
        state_directory: Path,
        requirements: Requirements,
        *,
        putting_back: bool = False,
        lasting: bool = False,
    ) -> None:
        """See HeldHosts. ``lasting``: what is changed there is to last, so it may be in use."""
        super().__init__(file, base, state_directory, putting_back=putting_back)
        self._requirements = requirements
        self._stop_s = _LASTING_STOP_S if lasting else USUAL_STOP_S

    def look(
        self, hosts: Hosts, campaign: str, workload: Workload
    ) -> tuple[Sequence[Finding], Assemble]:
        """See HeldHosts.look."""
        survey = look(self._file, hosts, self._requirements, campaign, workload.size_bytes)
        programs = survey.programs
        stopped = programs.volumes is None and "too many errors" not in programs.state
        if self._putting_back and stopped and not programs.cut_off:
            # Restoring it would start it, and whoever has stopped it may have a reason.
            raise TestbedError(
                f"{survey.server.host}: the fileserver's instance is {programs.state}; start it "
                f"first: bos start {self._file.server.address} {self._file.server.instance} "
                "-localauth"
            )
        return survey.findings, partial(self._assemble, programs, workload)

    def _assemble(
        self, programs: ServerFacts, workload: Workload, holds: Sequence[Hold]
    ) -> ReadyTestbed:
        return assemble(
            holds[0],
            _clients(self._file, holds),
            layout(self._file, self._stop_s),
            self._requirements,
            workload,
            alike=not self._putting_back,
            kernels=_kernels(self._file, holds),
            down=programs.volumes is None and not self._putting_back,
        )


def look(
    file: TestbedFile,
    hosts: Hosts,
    requirements: Requirements,
    campaign: str = "",
    workload_bytes: int = 0,
) -> Survey:
    """Inspect every host, read-only. Raises TestbedError with every host that does not answer, or
    with every client whose cache manager does not.

    ``campaign``: see ``client_facts``; ``workload_bytes``: see ``preflight``.
    """
    keys = ("server", *(f"clients.{number}" for number in range(len(file.clients))))
    hosts.check_files([f"{key}.reach" for key in keys])
    directory = file.restore.directory
    restarts = requirements.fileserver is not None
    server, *clients = on_each(
        [*zip(hosts.all, disks(file, restarts=restarts), strict=True)],
        lambda one: host_facts(*one),
        [file.server.name, *(client.name for client in file.clients)],
    )
    programs = server_facts(hosts.server, file.server, directory, restarts=restarts)
    caches = on_each(
        [*zip(hosts.clients, file.clients, strict=True)],
        lambda pair: client_facts(pair[0], file, pair[1], campaign),
        [client.name for client in file.clients],
    )
    now = datetime.now().astimezone()
    needs = _needs(file, hosts, requirements, programs)
    findings = preflight(file, (server, programs), clients, needs, now, caches, workload_bytes)
    return Survey(server, programs, tuple(clients), findings)


def disks(file: TestbedFile, *, restarts: bool) -> list[list[str]]:
    """The paths that need free space, by host: the server, then the clients.

    ``restarts``: whether the fileserver is restarted. Then its log must show that it has started.
    """
    directory = file.restore.directory
    server = [directory, file.server.log] if restarts else [directory]
    return [server, *([directory, client.control.way.cache] for client in file.clients)]


def _needs(
    file: TestbedFile, hosts: Hosts, requirements: Requirements, programs: ServerFacts
) -> dict[str, int]:
    """The memory in bytes that the largest configuration may need, by host."""
    needs: dict[str, int] = {}
    for connector, client in zip(hosts.clients, file.clients, strict=True):
        limits = cache_manager.host_limits(connector, client.control.way.cache)
        needs[connector.host] = _largest_bytes(requirements.cache_manager, limits)
    if requirements.fileserver is not None:
        limits = server_limits(hosts.server, next(iter(programs.commands), ""))
        if requirements.host_network is not None:
            limits |= possible(requirements.host_network, limits)
        needs[hosts.server.host] = _largest_bytes(requirements.fileserver, limits)
    return needs


def rehearse(
    file: TestbedFile,
    hosts: Hosts,
    requirements: Requirements,
    workload: Workload,
    findings: Sequence[Finding],
) -> Rehearsal:
    """Dry run of a campaign: returns the findings of ``look``, and all modifying commands.

    The commands are those for taking the hosts, for one arm with the original settings, for
    restoring, and for releasing the hosts, in this order.
    """
    commands: list[tuple[str, tuple[str, ...]]] = []
    dry = [DryConnector(connector, commands) for connector in hosts.all]
    owner = Owner("CAMPAIGN", socket.gethostname())
    holds = [Hold.take(one, file.restore.directory, owner, file.restore.after) for one in dry]
    places = _clients(file, holds), layout(file)
    kernels = _kernels(file, holds)
    ready = assemble(holds[0], *places, requirements, workload, kernels=kernels)
    make_cold = ready.make_cold
    for part in ready.target.parts.values():
        if isinstance(part, Fileserver | HostNetwork):
            part.rehearse(part.initial)
        else:
            part.apply(part.initial)
        if isinstance(part, cache_manager.CacheManager):
            make_cold = part.make_cold  # nothing is in effect, so there is nothing to verify
    with suppress(WorkloadError):  # nothing was run, so there is no report
        run_once(ready.engine, "CAMPAIGN-1-0", 0, make_cold)
    ready.target.restore(lambda what: None)
    for hold in holds:
        hold.give_back()
    return Rehearsal(file.name, findings, commands, ready.target)


def layout(file: TestbedFile, stop_s: int = USUAL_STOP_S) -> Layout:
    """Where things are on the hosts of a testbed file. ``stop_s``: see ``FileserverPlace``."""
    server, directory = file.server, file.restore.directory
    words = server.address, f"{directory}/restore", server.instance, server.log
    place = FileserverPlace(*words, stop_s)
    return Layout(directory, file.path, place, _PAGE_CACHE, server.volumes)


def _kernels(file: TestbedFile, hosts: Sequence[Hold]) -> list[Hold]:
    """Select the hosts that have their own kernel."""
    return [hold for hold, reach in zip(hosts, file.reached, strict=True) if reach.own_kernel]


def _clients(file: TestbedFile, holds: Sequence[Hold]) -> list[ClientHost]:
    """The client hosts, of the holds on all hosts."""
    sections = zip(holds[1:], file.clients, strict=True)
    return [ClientHost(hold, client_place(file, section)) for hold, section in sections]


def client_place(file: TestbedFile, client: ClientSection) -> FusePlace | KernelPlace:
    """Where a client's cache manager is."""
    way, directory = client.control.way, f"{file.restore.directory}/restore"
    if isinstance(way, FuseSection):
        return FusePlace(way.mount, way.cache, file.path, directory)
    return KernelPlace(
        unit=way.unit,
        file=way.file,
        variable=way.variable,
        mount=way.mount,
        cache=way.cache,
        probe=file.path,
        directory=directory,
        token=token_place(client, directory),
    )


def _largest_bytes(space: Space, limits: Mapping[str, int]) -> int:
    """Estimate the largest memory use in bytes of any configuration, from random ones."""
    configurations = (
        draw(space, Chance(seed, set_probability=0.8), limits) for seed in range(_DRAWS)
    )
    return max(space.memory_bytes(values, limits) for values in configurations)
