"""The buffers of a fileserver's socket, where the limits of its host are tuned as well.

The kernel cuts what a server asks for at its start to the limits of that moment, and a later change
of them does nothing to it: only a restart does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.hosts.connector import Connector
from tuner.model import Value
from tuner.services.openafs.kernel_limits import RMEM_MAX, WMEM_MAX
from tuner.services.openafs.kernel_limits import asked as limits_now

#: What a server asks for without -udpsize, for both directions as with it.
_USUAL_BYTES = 65536


@dataclass(slots=True)
class Buffers:
    """``at_start``: the limits when the server was started, for receiving and for sending. Of one
    that fstune has not started: when it was first looked at.
    """

    host: Connector
    at_start: tuple[int, int]

    @classmethod
    def of(cls, host: Connector) -> Buffers:
        """Of a server that runs. Raises TestbedError."""
        return cls(host, _limits(host))

    def facts(self, facts: Mapping[str, int]) -> dict[str, int]:
        """What the host allowed the server that runs, whatever it may allow another one."""
        return {**facts, "net_core_rmem_max": self.at_start[0]}

    def outdated(self, values: Mapping[str, Value]) -> bool:
        """Whether a server with these settings would get other buffers than it has, if it were
        started now. Raises TestbedError.
        """
        return _cut(values, _limits(self.host)) != _cut(values, self.at_start)

    def starting(self) -> None:
        """The server is about to be started. Raises TestbedError."""
        self.at_start = _limits(self.host)

    def record(self, initial: Mapping[str, Value]) -> tuple[str, ...]:
        """For the script that puts the server back: what it asks for as found, and the limits when
        it was started.
        """
        return str(_bytes(initial)), *map(str, self.at_start)


def _limits(host: Connector) -> tuple[int, int]:
    now = limits_now(host)
    return now[RMEM_MAX], now[WMEM_MAX]


def _cut(values: Mapping[str, Value], limits: tuple[int, int]) -> tuple[int, ...]:
    return tuple(min(_bytes(values), limit) for limit in limits)


def _bytes(values: Mapping[str, Value]) -> int:
    return int(values.get("udp_buffer", _USUAL_BYTES))
