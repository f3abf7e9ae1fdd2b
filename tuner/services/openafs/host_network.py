"""Kernel network limits of a testbed's hosts, as a part: the same on all hosts, only ever raised.

A fileserver requests its socket buffers when it starts, and the kernel clamps them to the limits at
that moment. So this part precedes the fileserver, and changing it may restart the fileserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Space
from tuner.errors import TestbedError
from tuner.hosts.connector import Connector
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.openafs.buffers import Buffers
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.kernel_limits import PROGRAM, KernelLimits, kernel_of, limits_now
from tuner.services.openafs.limits import memory_bytes
from tuner.services.openafs.live_part import LivePart
from tuner.services.openafs.spaces import SYSCTL_FILE
from tuner.services.part import NotInEffect, verify_effective


@dataclass(frozen=True, slots=True)
class HostNetwork(LivePart[KernelLimits]):
    """The limits of all tuned kernels; see Part. Use ``attach`` to create an instance."""

    @classmethod
    def attach(
        cls, hosts: Sequence[Connector], directory: str, space: Space, *, alike: bool = True
    ) -> HostNetwork:
        """Read the original limits of hosts, without changing anything. Raises TestbedError.

        Of several hosts that share a kernel, the first is used. ``directory``: for files of fstune
        on each host. The limits of hosts may differ, but not in what an application has set, unless
        ``alike`` is false.
        """
        kernels: dict[str, KernelLimits] = {}
        for limits in on_all(hosts, lambda host: KernelLimits.attach(host, directory)):
            kernels.setdefault(limits.kernel, limits)
        every = list(kernels.values())
        memory = min(on_all([limits.host for limits in every], memory_bytes))
        initial = {
            parameter.name: value
            for parameter in space.parameters
            if (value := _initial(every, parameter.flag, alike=alike)) is not None
        }
        facts = {
            parameter.supplies: max(limits.usual[parameter.flag] for limits in every)
            for parameter in space.parameters
            if parameter.supplies
        }
        return cls(every, space, f"{PROGRAM} of Linux", initial, facts | {"memory_bytes": memory})

    @property
    def tuned(self) -> frozenset[str]:
        """The tuned settings, by the kernel's names."""
        return frozenset(parameter.flag for parameter in self.space.parameters)

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        """See Part.apply: sysctl commands, which restart nothing."""
        target = self._settings(values)
        if not any(on_all(self.hosts, lambda limits: limits.set(target))):
            return None
        on_all(self.hosts, lambda limits: limits.record())
        return "set"

    def rehearse(self, values: Mapping[str, Value]) -> None:
        """Run all modifying commands of ``apply``: for dry connectors."""
        on_all(self.hosts, lambda limits: limits.rehearse())

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: queries every kernel; unset limits must have their usual values."""
        target = self._settings(values)
        effective: dict[str, Value] = dict(values)
        for limits, now in zip(
            self.hosts, on_all(self.hosts, lambda limits: limits_now(limits.host)), strict=True
        ):
            actual: dict[str, Value] = {f"{PROGRAM}.{name}": value for name, value in now.items()}
            try:
                effective = verify_effective(self.space, values, self.facts, actual)
            except NotInEffect as problem:
                raise NotInEffect(f"{limits.host.host}: {problem}") from problem
            for name in now.keys() - target.keys():
                if now[name] != limits.usual[name]:
                    raise NotInEffect(
                        f"{limits.host.host}: {name} should be {limits.usual[name]} as found, it "
                        f"is {now[name]}"
                    )
        return effective

    @property
    def how_changed(self) -> str:
        """See LastingPart.how_changed."""
        return "are set at once; a fileserver whose buffers depend on them is restarted"

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        return f"no file keeps them; put them into one such as {SYSCTL_FILE} on every host"

    def _settings(self, values: Mapping[str, Value]) -> dict[str, int]:
        return {self.space[name].flag: int(value) for name, value in values.items()}


def _initial(hosts: Sequence[KernelLimits], name: str, *, alike: bool) -> int | None:
    """Return the original value of a limit; None if it has its usual value on every host.

    Raises TestbedError when hosts differ in what was applied, since no configuration can express
    that.
    """
    if all(limits.initial[name] == limits.usual[name] for limits in hosts):
        return None
    first, *others = hosts
    for limits in others:
        if alike and limits.initial[name] != first.initial[name]:
            raise TestbedError(
                f"{limits.host.host} and {first.host.host} have different applied settings ({name} "
                f"is {limits.initial[name]} and {first.initial[name]}): set them to the same "
                "value, or undo it with 'fstune rollback'"
            )
    return max(limits.initial[name] for limits in hosts)


def possible(space: Space, facts: Mapping[str, int]) -> dict[str, int]:
    """Return the facts that this space supplies to later ones, at the highest searchable values."""
    highest = {parameter.name: parameter.high for parameter in space.searched}
    supplied = space.supplies(space.fit(highest, facts), facts)
    return {p.supplies: supplied[p.supplies] for p in space.parameters if p.supplies in supplied}


def bound(fileserver: Fileserver, network: HostNetwork) -> bool:
    """Link a fileserver to the tuned limits of its host; returns whether they are tuned.

    Raises TestbedError.
    """
    kernel = kernel_of(fileserver.host)
    if all(limits.kernel != kernel for limits in network.hosts):
        return False
    fileserver.buffers = Buffers.of(fileserver.host)
    supplied = possible(network.space, network.facts)
    fileserver.facts = {name: supplied.get(name, value) for name, value in fileserver.facts.items()}
    return True
