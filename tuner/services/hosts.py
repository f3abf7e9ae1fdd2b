"""A testbed of real hosts: connects, inspects and holds them, and releases them as they were.

Responsible for the order of these steps, which is the same for every kind of service. No host is
changed before all hosts have passed the inspection.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tuner.errors import ConflictError, TestbedError
from tuner.hosts.connections import Hosts
from tuner.hosts.heartbeats import Heartbeats
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.nodes import keep_up
from tuner.hosts.other_holds import check_no_others
from tuner.hosts.parallel import on_all
from tuner.hosts.reach import ReachedHosts, cells_of
from tuner.measure.driver import end_runs
from tuner.measure.workload import Workload
from tuner.services.hours import HoursSection, outside_hours
from tuner.services.journal import kept_names
from tuner.services.kind import Finding, check_usable
from tuner.services.restoring import recover
from tuner.services.testbed import ReadyTestbed, Unavailable
from tuner.text import counted

#: Reads the settings of the programs, given the holds: that of the server, then of the clients.
Assemble = Callable[[Sequence[Hold]], ReadyTestbed]


class HostsFile(ReachedHosts, Protocol):
    """What the testbed files of all kinds with hosts have."""

    @property
    def name(self) -> str:
        """The name of the testbed."""
        ...

    @property
    def hours(self) -> HoursSection | None:
        """When it may be used; None for any time."""
        ...


F = TypeVar("F", bound=HostsFile)


class HeldHosts(ABC, Generic[F]):
    """The hosts of a testbed file; see Testbed. They stay up: only their settings change."""

    clock = staticmethod(time.monotonic)

    def __init__(
        self, file: F, base: Path, state_directory: Path, *, putting_back: bool = False
    ) -> None:
        """``base``: the directory for relative paths in the file; ``putting_back``: ignore findings
        that refuse, since hosts are only restored.
        """
        self.remarks: tuple[str, ...] = ()
        self._putting_back = putting_back
        self._file = file
        self._base = base
        self._state = state_directory
        self._owner = Owner("none", socket.gethostname())
        self._stack = ExitStack()
        self._holds: tuple[Hold, ...] = ()
        self._heartbeats: Heartbeats | None = None

    @abstractmethod
    def look(
        self, hosts: Hosts, campaign: str, workload: Workload
    ) -> tuple[Sequence[Finding], Assemble]:
        """Inspect every host, read-only; returns reasons against changing them, and what then
        creates the open testbed. Raises TestbedError when a host does not answer.
        """

    def claim(self, campaign: str) -> bool:
        """See Testbed.claim: hosts are never brought up."""
        self._owner = Owner(campaign, socket.gethostname())
        return False

    def say_verification(self) -> None:
        """See NamesHolder."""
        self._owner = replace(self._owner, verifies=True)

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        """See Testbed.open.

        Raises ConflictError when a campaign holds a host, also with another restore directory, a
        finding refuses, or it is unavailable; InUseError when that may pass.
        """
        file = self._file
        if not self._putting_back:
            if (closed := self.unavailable()) is not None:
                raise ConflictError(closed.reason)
            self._stack.enter_context(keep_up(self._state, cells_of(file.reached)))
        say(f"connecting to {counted(len(file.reached), 'host')}")
        hosts = Hosts(file, self._base, self._state)
        self._stack.callback(hosts.close)
        say("inspecting the hosts")
        findings, assemble = self.look(hosts, self._owner.campaign, workload)
        self.remarks = tuple(f"{f.host}: {f.message}" for f in findings)
        if not self._putting_back:
            check_usable(file.name, findings)
        check_no_others(hosts.all, file.restore.directory)
        self._take(hosts)
        self._heartbeats = Heartbeats(self._holds)
        ready = assemble(self._holds)
        return replace(
            ready,
            target=replace(ready.target, before_restore=self._only_restore),
            predecessors=tuple(sorted({hold.predecessor for hold in self._holds} - {""})),
        )

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

    def recover(self, campaign: str) -> list[str]:
        """See Recoverable.recover. Hosts that were taken are left to their watches."""
        if self._holds:
            return []
        restore, owner = self._file.restore, replace(self._owner, campaign=campaign)
        with closing(Hosts(self._file, self._base, self._state)) as hosts:
            return recover(hosts.all, restore.directory, owner, restore.after)

    def unavailable(self) -> Unavailable | None:
        """See Testbed.unavailable: unavailable outside the hours in the file."""
        return outside_hours(self._file.name, self._file.hours, datetime.now().astimezone())
