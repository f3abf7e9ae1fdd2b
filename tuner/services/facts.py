"""Facts about a host that do not depend on what runs there. Read-only."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector, check, understood
from tuner.measure.diagnostics.process import process_status

_LEAST_PYTHON = (3, 9)


#: The kernel doubles what was asked for, up to the limit, for its own use.
_LARGEST_BUFFER = (
    "from socket import *; udp = socket(AF_INET, SOCK_DGRAM); "
    "udp.setsockopt(SOL_SOCKET, SO_RCVBUF, 2**30); "
    "print(udp.getsockopt(SOL_SOCKET, SO_RCVBUF) // 2)"
)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about one host.

    ``clock_ahead_s``: how far its clock is ahead of this machine's; ``asked_s``: how long that
    query took, which limits the accuracy of ``clock_ahead_s``. ``free_bytes``: by path.
    """

    host: str
    system: str
    kernel: str
    cpus: int
    memory_bytes: int
    available_bytes: int
    python: str
    clock_ahead_s: float
    asked_s: float
    addresses: frozenset[str]
    free_bytes: tuple[tuple[str, int], ...]


def host_facts(host: Connector, paths: Sequence[str]) -> HostFacts:
    """Query a host. ``paths``: where to determine the free space. Raises TestbedError."""
    with understood(host.host):
        began, wall = time.monotonic(), time.time()
        there = float(check(host, ["date", "+%s.%N"]))
        asked_s = time.monotonic() - began
        memory = process_status(check(host, ["cat", "/proc/meminfo"]))
        addresses = check(host, ["ip", "-oneline", "address", "show"])
        return HostFacts(
            host=host.host,
            system=_system(host.ask(["cat", "/etc/os-release"]).stdout),
            kernel=check(host, ["uname", "--kernel-release"]).strip(),
            cpus=int(check(host, ["nproc"])),
            memory_bytes=memory["MemTotal"] * 1024,
            available_bytes=memory["MemAvailable"] * 1024,
            python=_python(host),
            clock_ahead_s=there - wall - asked_s / 2.0,
            asked_s=asked_s,
            addresses=frozenset(re.findall(r"inet6? ([0-9a-f.:]+)/", addresses)),
            free_bytes=tuple((path, free_bytes(host, path)) for path in paths),
        )


def rmem_max_bytes(host: Connector) -> int:
    """The largest receive buffer that a program may ask for: ``net.core.rmem_max``.

    Kernels before 6.11 do not show the setting in network namespaces, as nodes of private cells
    have, although it applies there: then the buffer of a socket is measured.
    """
    with understood(host.host):
        setting = host.ask(["cat", "/proc/sys/net/core/rmem_max"])
        if setting.status == 0:
            return int(setting.stdout)
        return int(check(host, ["python3", "-I", "-S", "-c", _LARGEST_BUFFER]))


def free_bytes(host: Connector, path: str) -> int:
    """Free bytes in the file system of ``path``, or of its nearest existing parent directory."""
    while path != "/" and host.ask(["test", "-e", path]).status != 0:
        path = path.rpartition("/")[0] or "/"
    with understood(host.host):
        output = check(host, ["df", "--output=avail", "--block-size=1", "--", path])
        return int(output.split()[-1])


def _system(os_release: str) -> str:
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', os_release, re.MULTILINE)
    return "unknown" if match is None else match[1]


def _python(host: Connector) -> str:
    version = host.ask(["python3", "--version"])
    match = re.search(r"Python (\d+)\.(\d+)", version.stdout)
    if match is None or (int(match[1]), int(match[2])) < _LEAST_PYTHON:
        least = ".".join(map(str, _LEAST_PYTHON))
        raise TestbedError(f"{host.host}: python3 ({least} or newer) is needed: {version.tail}")
    return version.stdout.split()[1]
