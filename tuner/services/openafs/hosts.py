"""A testbed of real hosts: connects, inspects and holds them, and releases them as they were.

Responsible for the order of these steps. No host is changed before all hosts have passed the
inspection.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from search_spaces import Space
from search_spaces.sampling import Chance, draw
from tuner.errors import ConflictError, TestbedError, WorkloadError
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.dry import DryConnector
from tuner.hosts.heartbeats import Heartbeats
from tuner.hosts.hold import Hold, patience_s
from tuner.hosts.lease import Owner
from tuner.hosts.link import open_socket
from tuner.hosts.local import LocalConnector
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.node import SupervisedNode
from tuner.hosts.node_supervisor import NodeSupervisors
from tuner.hosts.parallel import on_all
from tuner.hosts.ssh import SshConnector
from tuner.measure.driver import end_runs
from tuner.measure.workload import Workload
from tuner.measure.workload_run import run_once
from tuner.services.facts import HostFacts, host_facts
from tuner.services.hours import outside_hours
from tuner.services.journal import kept_names
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
from tuner.services.openafs.preflight import preflight
from tuner.services.openafs.unit import UnitPlace
from tuner.services.restoring import recover
from tuner.services.testbed import ReadyTestbed, Unavailable

#: The number of random configurations from which the largest memory use is estimated.
_DRAWS = 300
_PAGE_CACHE = "kept: the server's page cache is left alone"


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts about the hosts of a testbed, and reasons against changing them."""

    server: HostFacts
    programs: ServerFacts
    clients: tuple[HostFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def refusal(self) -> str | None:
        """All reasons why a campaign must not start; None if there are none."""
        reasons = [f"{f.host}: {f.message}" for f in self.findings if f.refuses]
        return "; ".join(reasons) or None


class Hosts:
    """Connections to all hosts of a testbed, opened when first used."""

    def __init__(self, file: TestbedFile, base: Path, state_directory: Path) -> None:
        """``base``: the directory for relative paths in the file."""
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
        """Close all connections."""
        self._stack.close()

    def _connect(self, reach: ReachSection, base: Path, state: Path) -> SpeakingConnector:
        if reach.ssh is not None:
            host = ssh_host(reach.ssh, base)
            within_node = reach.ssh.netns
            opener = open_socket if within_node is None else from_node(state, within_node)
            return self._stack.enter_context(closing(SshConnector(host, self._patience, opener)))
        if reach.netns is not None:
            entered = node(state, reach.netns)
            supervisors = self._stack.enter_context(closing(NodeSupervisors(entered)))
            return SupervisedNode(entered, supervisors)
        return LocalConnector()


class HostsTestbed:
    """The hosts of a testbed file; see Testbed. They stay up: only their settings change."""

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
        """``putting_back``: ignore refusals of the survey, since hosts are only restored."""
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

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        """See Testbed.open.

        Raises ConflictError when a campaign holds a host, the survey refuses, or it is unavailable.
        """
        file = self._file
        if not self._putting_back:
            if (closed := self.unavailable()) is not None:
                raise ConflictError(closed.reason)
            self._stack.enter_context(keep_up(self._state, file.cells))
        say(f"connecting to {1 + len(file.clients)} hosts")
        hosts = Hosts(file, self._base, self._state)
        self._stack.callback(hosts.close)
        say("inspecting the hosts")
        survey = look(file, hosts, self._requirements, self._owner.campaign, workload.size_bytes)
        self.remarks = tuple(f"{f.host}: {f.message}" for f in survey.findings)
        if survey.refusal is not None and not self._putting_back:
            raise ConflictError(f"testbed {file.name} must not be used now: {survey.refusal}")
        self._take(hosts)
        self._heartbeats = Heartbeats(self._holds)
        server, *clients = self._holds
        ready = assemble(
            server,
            self._clients(clients),
            layout(file),
            self._requirements,
            workload,
            alike=not self._putting_back,
            kernels=_kernels(file, self._holds),
            down=survey.programs.volumes is None and not self._putting_back,
        )
        return replace(ready, target=replace(ready.target, before_restore=self._only_restore))

    def _only_restore(self) -> None:
        for hold in self._holds:
            hold.only_restore()

    def _take(self, hosts: Hosts) -> None:
        """Hold the server, then all clients in parallel; a taken server leaves nothing held."""
        restore = self._file.restore

        def take(number: int) -> None:
            connector = hosts.all[number]
            holds[number] = Hold.take(
                connector, restore.directory, self._owner, restore.after, end_runs
            )

        holds: dict[int, Hold] = {}
        server, *clients = range(len(hosts.all))
        try:
            take(server)
            on_all(clients, take)
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

    def kept_names(self) -> dict[str, str]:
        """See LastingTestbed.kept_names."""
        directory = self._file.restore.directory
        names = on_all(self._holds, lambda hold: kept_names(hold, directory))
        pairs = zip(self._holds, names, strict=True)
        return {name: hold.host for hold, each in pairs for name in each}

    def put_back(self, campaign: str) -> list[str]:
        """See Recoverable.put_back. Hosts that were taken are left to their watches."""
        if self._holds:
            return []
        restore, owner = self._file.restore, Owner(campaign, socket.gethostname())
        with closing(Hosts(self._file, self._base, self._state)) as hosts:
            return recover(hosts.all, restore.directory, owner, restore.after)

    def unavailable(self) -> Unavailable | None:
        """See Testbed.unavailable: unavailable outside the hours in the file."""
        return outside_hours(self._file.name, self._file.hours, datetime.now().astimezone())

    def _clients(self, clients: Sequence[Hold]) -> list[ClientHost]:
        sections = zip(clients, self._file.clients, strict=True)
        return [ClientHost(hold, client_place(self._file, section)) for hold, section in sections]


def look(
    file: TestbedFile,
    hosts: Hosts,
    requirements: Requirements,
    campaign: str = "",
    workload_bytes: int = 0,
) -> Survey:
    """Inspect every host, read-only. Raises TestbedError when one does not answer.

    ``campaign``: see ``client_facts``; ``workload_bytes``: see ``preflight``.
    """
    directory = file.restore.directory
    paths = [[directory], *([directory, client.control.way.cache] for client in file.clients)]
    server, *clients = on_all([*zip(hosts.all, paths, strict=True)], lambda one: host_facts(*one))
    restarts = requirements.fileserver is not None
    programs = server_facts(hosts.server, file.server, directory, restarts=restarts)
    pairs = [*zip(hosts.clients, file.clients, strict=True)]
    caches = on_all(pairs, lambda pair: client_facts(pair[0], file, pair[1], campaign))
    now = datetime.now().astimezone()
    needs = _needs(file, hosts, requirements, programs)
    findings = preflight(file, (server, programs), clients, needs, now, caches, workload_bytes)
    return Survey(server, programs, tuple(clients), findings)


def _needs(
    file: TestbedFile, hosts: Hosts, requirements: Requirements, programs: ServerFacts
) -> dict[str, int]:
    """The memory in bytes that the largest configuration may need, by host."""
    needs: dict[str, int] = {}
    for connector, client in zip(hosts.clients, file.clients, strict=True):
        limits = cache_manager.host_limits(connector, client.control.way.cache)
        needs[connector.host] = _largest_bytes(requirements.cache_manager, limits)
    if requirements.fileserver is not None:
        limits = fileserver.host_limits(hosts.server, next(iter(programs.commands), ""))
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
    server, *clients = holds
    sections = zip(clients, file.clients, strict=True)
    client_hosts = [ClientHost(hold, client_place(file, section)) for hold, section in sections]
    kernels = _kernels(file, holds)
    ready = assemble(server, client_hosts, layout(file), requirements, workload, kernels=kernels)
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


def layout(file: TestbedFile) -> Layout:
    """Where things are on the hosts of a testbed file."""
    server, directory = file.server, file.restore.directory
    place = FileserverPlace(server.address, f"{directory}/restore", server.instance, server.log)
    return Layout(directory, file.path, place, _PAGE_CACHE)


def _kernels(file: TestbedFile, hosts: Sequence[Hold]) -> list[Hold]:
    """Select the hosts that have their own kernel."""
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
    """Return the timeouts for SSH hosts that restore themselves after ``after_s`` seconds.

    A dead connection must be detected and re-established well before that.
    """
    usual = Patience()
    return Patience(
        connect_s=min(usual.connect_s, after_s / 4.0),
        keepalive_s=min(usual.keepalive_s, after_s / 20.0),
        reconnect_s=patience_s(after_s),
    )


def ssh_host(section: SshSection, base: Path) -> SshHost:
    """How a host is reached over SSH; relative paths are relative to ``base``."""

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
    """Estimate the largest memory use in bytes of any configuration, from random ones."""
    configurations = (
        draw(space, Chance(seed, set_probability=0.8), limits) for seed in range(_DRAWS)
    )
    return max(space.memory_bytes(values, limits) for values in configurations)
