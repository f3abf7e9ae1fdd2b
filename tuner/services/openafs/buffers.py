"""The socket buffers of a fileserver on a host whose kernel limits are tuned as well.

When a server starts, the kernel clamps the requested buffer size to the limits at that moment.
Later changes of the limits have no effect until the server is restarted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.hosts.connector import Connector
from tuner.model import Value
from tuner.services.openafs.kernel_limits import RMEM_MAX, WMEM_MAX, limits_now

#: The buffer size that a server requests without -udpsize; it applies to both directions.
_USUAL_BYTES = 65536


@dataclass(slots=True)
class Buffers:
    """The kernel limits that apply to a running server.

    ``at_start``: the receive and send limits in bytes when the server was started, or, if fstune
    did not start it, when they were first read.
    """

    host: Connector
    at_start: tuple[int, int]

    @classmethod
    def of(cls, host: Connector) -> Buffers:
        """Read the limits for a running server. Raises TestbedError."""
        return cls(host, _limits(host))

    def facts(self, facts: Mapping[str, int]) -> dict[str, int]:
        """Return the facts with the limit that applies to the running server."""
        return {**facts, "net_core_rmem_max": self.at_start[0]}

    def outdated(self, values: Mapping[str, Value]) -> bool:
        """Whether a restart with these settings would change the buffer sizes.

        Raises TestbedError.
        """
        return _cut(values, _limits(self.host)) != _cut(values, self.at_start)

    def starting(self) -> None:
        """Note that the server is about to be started. Raises TestbedError."""
        self.at_start = _limits(self.host)

    def record(self, initial: Mapping[str, Value]) -> tuple[str, ...]:
        """The record for the restore script: the buffer size that the server requests with its
        original settings, and the limits when it was started.
        """
        return str(_bytes(initial)), *map(str, self.at_start)


def _limits(host: Connector) -> tuple[int, int]:
    now = limits_now(host)
    return now[RMEM_MAX], now[WMEM_MAX]


def _cut(values: Mapping[str, Value], limits: tuple[int, int]) -> tuple[int, ...]:
    return tuple(min(_bytes(values), limit) for limit in limits)


def _bytes(values: Mapping[str, Value]) -> int:
    return int(values.get("udp_buffer", _USUAL_BYTES))
