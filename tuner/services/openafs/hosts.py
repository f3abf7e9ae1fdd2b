"""A testbed of real hosts: connects, looks, holds them, and gives them back as they were.

Owns the order in which that happens. Nothing on a host is changed before every host was looked at
and found fit.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from pathlib import Path

from search_spaces import Space
from search_spaces.sampling import Chance, draw
from tuner.errors import ConflictError, TestbedError, WorkloadError
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.dry import DryConnector
from tuner.hosts.heartbeats import Heartbeats
from tuner.hosts.hold import Hold, Owner, patience_s
from tuner.hosts.link import open_socket
from tuner.hosts.local import LocalConnector
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.node import NodeConnector
from tuner.hosts.put_back import restore_all
from tuner.hosts.ssh import SshConnector
from tuner.measure.workload import Workload
from tuner.services.facts import HostFacts, host_facts
from tuner.services.kind import Finding, Rehearsal
from tuner.services.openafs import cache_manager, fileserver
from tuner.services.openafs.assembly import ClientHost, Layout, Requirements, assemble
from tuner.services.openafs.bosserver import FileserverPlace
from tuner.services.openafs.facts import ServerFacts, client_facts, server_facts, token_place
from tuner.services.openafs.file import (
    ClientSection,
    FuseSection,
    ReachSection,
    SshSection,
    TestbedFile,
)
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.fuse import FusePlace
from tuner.services.openafs.host_network import HostNetwork, possible
from tuner.services.openafs.nodes import from_node, keep_up, node
from tuner.services.openafs.preflight import preflight, within
from tuner.services.openafs.unit import UnitPlace
from tuner.services.testbed import Bench

#: The number of configurations of a space from which the largest use of memory is estimated.
_DRAWS = 300
_PAGE_CACHE = "kept: the server's page cache is left alone"


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts about the hosts of a testbed, and what prevents changing them."""

    server: HostFacts
    programs: ServerFacts
    clients: tuple[HostFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def refusal(self) -> str | None:
        """All reasons why a campaign must not begin, None when there is none."""
        reasons = [f"{f.host}: {f.message}" for f in self.findings if f.refuses]
        return "; ".join(reasons) or None


class Hosts:
    """Connections to all hosts of a testbed, opened when first used."""

    def __init__(self, file: TestbedFile, base: Path, state_directory: Path) -> None:
        """``base``: where relative paths in the file begin."""
        self._stack = ExitStack()
        self._patience = patience(file.restore.after)
        try:
            self.server = self._connect(file.server.reach, base, state_directory)
            self.clients = tuple(
                self._connect(client.reach, base, state_directory) for client in file.clients
            )
        except BaseException:
            self._stack.close()
            raise

    @property
    def all(self) -> tuple[SpeakingConnector, ...]:
        """The server, then the clients."""
        return (self.server, *self.clients)

    def close(self) -> None:
        """Let go of all connections."""
        self._stack.close()

    def _connect(self, reach: ReachSection, base: Path, state: Path) -> SpeakingConnector:
        if reach.ssh is not None:
            host = ssh_host(reach.ssh, base)
            within_node = reach.ssh.netns
            opener = open_socket if within_node is None else from_node(state, within_node)
            return self._stack.enter_context(closing(SshConnector(host, self._patience, opener)))
        if reach.netns is not None:
            return NodeConnector(node(state, reach.netns))
        return LocalConnector()


class HostsTestbed:
    """Hosts named by a testbed file; see Testbed. They stay up: only their settings change."""

    clock = staticmethod(time.monotonic)

    def __init__(
        self,
        file: TestbedFile,
        base: Path,
        state_directory: Path,
        requirements: Requirements,
        *,
        putting_back: bool = False,
    ) -> None:
        """``putting_back``: open it whatever the survey refuses, since it is only put back."""
        self._putting_back = putting_back
        self.remarks: tuple[str, ...] = ()
        self._file = file
        self._base = base
        self._state = state_directory
        self._owner = Owner("none", socket.gethostname())
        self._requirements = requirements
        self._stack = ExitStack()
        self._holds: tuple[Hold, ...] = ()
        self._heartbeats: Heartbeats | None = None

    def claim(self, campaign: str) -> bool:
        """See Testbed.claim: hosts are never brought up."""
        self._owner = Owner(campaign, socket.gethostname())
        return False

    def open(self, workload: Workload, say: Callable[[str], None]) -> Bench:
        """See Testbed.open. Raises ConflictError when a campaign holds a host, or when something
        prevents changing one.
        """
        file = self._file
        if not self._putting_back:
            self._stack.enter_context(keep_up(self._state, file.cells))
        say(f"connecting to {1 + len(file.clients)} hosts")
        hosts = Hosts(file, self._base, self._state)
        self._stack.callback(hosts.close)
        say("looking at the hosts")
        survey = look(file, hosts, self._requirements)
        self.remarks = tuple(f"{f.host}: {f.message}" for f in survey.findings)
        if survey.refusal is not None and not self._putting_back:
            raise ConflictError(f"testbed {file.name} must not be used now: {survey.refusal}")
        self._take(hosts)
        self._heartbeats = Heartbeats(self._holds)
        server, *clients = self._holds
        bench = assemble(
            server,
            self._clients(clients),
            layout(file),
            self._requirements,
            workload,
            alike=not self._putting_back,
            kernels=_kernels(file, self._holds),
        )
        return replace(bench, target=replace(bench.target, settle=self._settle))

    def _settle(self) -> None:
        for hold in self._holds:
            hold.settle()

    def _take(self, hosts: Hosts) -> None:
        """Hold the server, then all clients at once: who finds it taken has taken nothing."""
        restore = self._file.restore

        def take(number: int) -> None:
            connector = hosts.all[number]
            holds[number] = Hold.take(connector, restore.directory, self._owner, restore.after)

        holds: dict[int, Hold] = {}
        server, *clients = range(len(hosts.all))
        try:
            take(server)
            with ThreadPoolExecutor(len(clients)) as pool:
                list(pool.map(take, clients))
        finally:
            self._holds = tuple(holds[number] for number in sorted(holds))

    def close(self) -> str | None:
        """See Testbed.close."""
        if self._heartbeats is not None:
            self._heartbeats.close()
            self._heartbeats = None
        failure: TestbedError | None = None
        messages: list[str] = []
        for hold in self._holds:
            try:
                if (message := hold.give_back()) is not None:
                    messages.append(message)
            except TestbedError as problem:
                failure = failure or problem
        self._holds = ()
        self._stack.close()
        if failure is not None:
            raise failure
        return "; ".join(messages) or None

    def unavailable(self) -> str | None:
        """See Testbed.unavailable: outside the hours of the file."""
        hours = self._file.hours
        if hours is None or within(hours, datetime.now().astimezone().time()):
            return None
        span = f"{hours.start:%H:%M} to {hours.end:%H:%M}"
        return f"the hours of testbed {self._file.name} ({span})"

    def _clients(self, clients: Sequence[Hold]) -> list[ClientHost]:
        sections = zip(clients, self._file.clients, strict=True)
        return [ClientHost(hold, client_place(self._file, section)) for hold, section in sections]


def look(file: TestbedFile, hosts: Hosts, requirements: Requirements) -> Survey:
    """Read every host; nothing is changed. Raises TestbedError when one does not answer."""
    directory = file.restore.directory
    section = file.server
    paths = [[directory], *([directory, client.control.way.cache] for client in file.clients)]
    with ThreadPoolExecutor(len(hosts.all)) as pool:
        server, *others = pool.map(host_facts, hosts.all, paths)
    clients = tuple(others)
    programs = server_facts(hosts.server, section.address, section.instance, section.volumes[0])
    with ThreadPoolExecutor(len(clients)) as pool:
        caches = list(pool.map(client_facts, hosts.clients, repeat(file), file.clients))
    now = datetime.now().astimezone()
    needs = _needs(file, hosts, requirements, programs)
    findings = preflight(file, (server, programs), clients, needs, now, caches)
    return Survey(server, programs, clients, findings)


def _needs(
    file: TestbedFile, hosts: Hosts, requirements: Requirements, programs: ServerFacts
) -> dict[str, int]:
    """How much memory the largest configuration may take, by host."""
    needs: dict[str, int] = {}
    for connector, client in zip(hosts.clients, file.clients, strict=True):
        limits = cache_manager.host_limits(connector, client.control.way.cache)
        needs[connector.host] = _largest_bytes(requirements.cache_manager, limits)
    if requirements.fileserver is not None:
        limits = fileserver.host_limits(hosts.server, programs.commands[0])
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
    """The findings of ``look``, and every command of a campaign that would change something, by
    host, in order: taking the hosts, one arm with the settings as found, putting back, giving
    the hosts back.
    """
    would: list[tuple[str, tuple[str, ...]]] = []
    dry = [DryConnector(connector, would) for connector in hosts.all]
    owner = Owner("CAMPAIGN", socket.gethostname())
    holds = [Hold.take(one, file.restore.directory, owner, file.restore.after) for one in dry]
    server, *clients = holds
    sections = zip(clients, file.clients, strict=True)
    client_hosts = [ClientHost(hold, client_place(file, section)) for hold, section in sections]
    kernels = _kernels(file, holds)
    bench = assemble(server, client_hosts, layout(file), requirements, workload, kernels=kernels)
    make_cold = bench.make_cold
    for part in bench.target.parts.values():
        if isinstance(part, Fileserver | HostNetwork):
            part.rehearse(part.initial)
        else:
            part.apply(part.initial)
        if isinstance(part, cache_manager.CacheManager):
            make_cold = part.make_cold  # nothing is in effect, so nothing is proven
    with suppress(WorkloadError):  # nothing ran, so nothing is reported
        bench.engine.run("CAMPAIGN-1-0", 0, make_cold, lambda stage: None)
    bench.target.restore(lambda what: None)
    for hold in holds:
        hold.give_back()
    return Rehearsal(file.name, findings, would, bench.target)


def restore(hosts: Sequence[SpeakingConnector], directory: str) -> Iterator[str]:
    """Put every host back from its journals and end what holds it; a sentence for each part, as
    soon as it is done.

    Goes on when one fails, then raises that failure (TestbedError).
    """
    failure: TestbedError | None = None
    reachable: list[SpeakingConnector] = []
    for connector in hosts:
        try:
            # Whoever holds the host is refused from now on, before anything is put back anywhere;
            # what it began before is waited for.
            connector.change(["rm", "--recursive", "--force", f"{directory}/lease"])
            reachable.append(connector)
        except TestbedError as problem:
            failure = failure or problem
    for connector in reachable:
        try:
            messages = restore_all(connector, directory)
            yield from messages or [f"{connector.host}: nothing to put back"]
            connector.change(["rm", "--recursive", "--force", f"{directory}/lease.expired"])
        except TestbedError as problem:
            failure = failure or problem
    if failure is not None:
        raise failure


def layout(file: TestbedFile) -> Layout:
    """Where things are on the hosts of a testbed file."""
    server, directory = file.server, file.restore.directory
    place = FileserverPlace(server.address, f"{directory}/restore", server.instance, server.log)
    return Layout(directory, file.path, place, _PAGE_CACHE)


def _kernels(file: TestbedFile, hosts: Sequence[Hold]) -> list[Hold]:
    """Those of all hosts that have a kernel of their own."""
    return [hold for hold, reach in zip(hosts, file.reached, strict=True) if reach.own_kernel]


def client_place(file: TestbedFile, client: ClientSection) -> FusePlace | UnitPlace:
    """Where a client's cache manager is."""
    way, directory = client.control.way, f"{file.restore.directory}/restore"
    if isinstance(way, FuseSection):
        return FusePlace(way.mount, way.cache, file.path, directory)
    return UnitPlace(
        unit=way.unit,
        file=way.file,
        variable=way.variable,
        mount=way.mount,
        cache=way.cache,
        probe=file.path,
        directory=directory,
        token=token_place(client, directory),
    )


def patience(after_s: float) -> Patience:
    """How long to wait for hosts by SSH that put themselves back ``after_s``: a dead connection
    must be noticed, and made again, well before.
    """
    usual = Patience()
    return Patience(
        connect_s=min(usual.connect_s, after_s / 4.0),
        keepalive_s=min(usual.keepalive_s, after_s / 20.0),
        reconnect_s=patience_s(after_s),
    )


def ssh_host(section: SshSection, base: Path) -> SshHost:
    """How a host is reached by SSH; relative paths begin at ``base``."""

    def absolute(path: Path) -> Path:
        return base / path.expanduser()

    jump = section.jump
    through = None
    if jump is not None:
        through = SshHost(
            jump.address,
            jump.user,
            jump.port,
            None if jump.key is None else absolute(jump.key),
            section.agent,
            absolute(section.known_hosts),
        )
    return SshHost(
        address=section.address,
        user=section.user,
        port=section.port,
        key_file=None if section.key is None else absolute(section.key),
        agent=section.agent,
        known_hosts=absolute(section.known_hosts),
        sudo=section.by_sudo,
        jump=through,
    )


def _largest_bytes(space: Space, limits: Mapping[str, int]) -> int:
    """The most memory of many configurations that a proposer could come up with."""
    configurations = (
        draw(space, Chance(seed, set_probability=0.8), limits) for seed in range(_DRAWS)
    )
    return max(space.memory_bytes(values, limits) for values in configurations)
