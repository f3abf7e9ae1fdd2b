"""What the hosts of a testbed are and what they are doing: read, nothing changed.

Owns the commands that ask and the records of the answers; what the answers mean for a campaign is
``preflight``'s.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector, check, understood
from tuner.measure.diagnostics.process import process_status
from tuner.services.openafs import parse
from tuner.services.openafs.cache_manager import cache_info
from tuner.services.openafs.file import ClientSection, TestbedFile, UnitSection

#: The numbers of the processes that use files below a mount point.
_HOLDERS = r"""
find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd -maxdepth 1 \
    \( -lname "$1" -o -lname "$1/*" \) 2> /dev/null | cut -d/ -f3 | sort -nu
"""
_LEAST_PYTHON = (3, 9)
_TRIES, _PAUSE_S = 5, 1.0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host. ``clock_ahead_s``: its clock against this machine's, ``asked_s``: how long the
    question took (the former is no more exact). ``free_bytes``: by path.
    """

    host: str
    system: str
    kernel: str
    cpus: int
    memory_bytes: int
    available_bytes: int
    rmem_max_bytes: int
    python: str
    clock_ahead_s: float
    asked_s: float
    addresses: frozenset[str]
    free_bytes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a fileserver is doing. ``commands``: those of its instance. ``volumes``: by name.
    ``clients``: addresses that have called it lately.
    """

    state: str
    commands: tuple[str, ...]
    volumes: frozenset[str]
    clients: frozenset[str]
    quota_kib: int
    used_kib: int


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """A client's cache manager. ``sees``: whether it shows the testbed's path, or is down for a
    journal to put back. ``cache_info``: mount point and cache directory by its own file.
    ``holders``: processes that use its files. The last three are the kernel client's only.
    """

    host: str
    sees: bool
    cache_info: tuple[str, str] | None = None
    holders: tuple[str, ...] = ()
    tokens: bool = False


def client_facts(host: Connector, file: TestbedFile, client: ClientSection) -> ClientFacts:
    """Ask a client about its cache manager. Raises TestbedError."""
    way = client.control.way
    journal = f"{file.restore.directory}/restore/cache_manager"
    seen = host.ask(["timeout", "20", "test", "-d", file.path]).status == 0
    sees = seen or host.ask(["test", "-d", journal]).status == 0
    if not isinstance(way, UnitSection):
        return ClientFacts(host.host, sees)
    pids = host.ask(["sh", "-c", _HOLDERS, "sh", way.mount]).stdout.split()
    tokens = parse.has_tokens(host.ask(["tokens"]).stdout)
    return ClientFacts(host.host, sees, cache_info(host)[:2], tuple(pids), tokens)


def host_facts(host: Connector, paths: Sequence[str]) -> HostFacts:
    """Ask a host. ``paths``: whose file systems' free space is wanted. Raises TestbedError."""
    with understood(host.host):
        began, wall = time.monotonic(), time.time()
        there = float(check(host, ["date", "+%s.%N"]))
        asked_s = time.monotonic() - began
        memory = process_status(check(host, ["cat", "/proc/meminfo"]))
        shown = check(host, ["ip", "-oneline", "address", "show"])
        return HostFacts(
            host=host.host,
            system=_system(host.ask(["cat", "/etc/os-release"]).stdout),
            kernel=check(host, ["uname", "--kernel-release"]).strip(),
            cpus=int(check(host, ["nproc"])),
            memory_bytes=memory["MemTotal"] * 1024,
            available_bytes=memory["MemAvailable"] * 1024,
            rmem_max_bytes=int(check(host, ["cat", "/proc/sys/net/core/rmem_max"])),
            python=_python(host),
            clock_ahead_s=there - wall - asked_s / 2.0,
            asked_s=asked_s,
            addresses=frozenset(re.findall(r"inet6? ([0-9a-f.:]+)/", shown)),
            free_bytes=tuple((path, free_bytes(host, path)) for path in paths),
        )


def server_facts(host: Connector, address: str, instance: str, volume: str) -> ServerFacts:
    """Ask the programs of a fileserver host. Raises TestbedError when one does not answer."""
    asking = ["bos", "status", address, instance, "-long", "-localauth"]
    rx = ["rxdebug", address, str(parse.FILESERVER_PORT), "-allconnections", "-onlyserver"]
    try:
        status = parse.bos_status(check(host, asking))
        clients = parse.clients_connected(check(host, rx))
        volumes = parse.volumes(_patiently(host, ["vos", "listvol", address, "-localauth"]))
        examined = check(host, ["vos", "examine", volume, "-localauth"])
        quota_kib, used_kib = parse.volume_quota(examined)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
    return ServerFacts(status.summary, status.commands, volumes, clients, quota_kib, used_kib)


def _patiently(host: Connector, argv: Sequence[str]) -> str:
    """Ask what may need a moment: a volserver answers later than its instance runs normally."""
    for _ in range(_TRIES - 1):
        result = host.ask(argv)
        if result.status == 0:
            return result.stdout
        time.sleep(_PAUSE_S)
    return check(host, argv)


def free_bytes(host: Connector, path: str) -> int:
    """Free space of the file system that holds ``path``, or its nearest directory that exists."""
    while path != "/" and host.ask(["test", "-e", path]).status != 0:
        path = path.rpartition("/")[0] or "/"
    with understood(host.host):
        said = check(host, ["df", "--output=avail", "--block-size=1", "--", path])
        return int(said.split()[-1])


def _system(os_release: str) -> str:
    found = re.search(r'^PRETTY_NAME="?(.*?)"?$', os_release, re.MULTILINE)
    return "unknown" if found is None else found[1]


def _python(host: Connector) -> str:
    said = host.ask(["python3", "--version"])
    found = re.search(r"Python (\d+)\.(\d+)", said.stdout)
    if found is None or (int(found[1]), int(found[2])) < _LEAST_PYTHON:
        least = ".".join(map(str, _LEAST_PYTHON))
        raise TestbedError(f"{host.host}: python3 ({least} or newer) is needed: {said.tail}")
    return said.stdout.split()[1]
