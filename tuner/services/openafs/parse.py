"""Parsers for the output of OpenAFS tools. Pure functions.

Each raises ValueError, with the name of the tool, when it cannot parse the text.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from contextlib import suppress
from dataclasses import dataclass, replace

FILESERVER_PORT = 7000
#: Of the kernel client; one in user space has a port of its own each time.
CACHE_MANAGER_PORT = 7001
BOSSERVER_PORT = 7007

_STARTING = "File server starting ("
_STARTED = "File Server started"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The status of one instance from ``bos status -long``.

    ``summary``: its state as worded by bos. ``commands``: its command lines, the fileserver's
    first. ``last_error``: how its last failed process ended, "" if none failed. ``last_start``:
    when a process was last started, and how many were since it was created, as worded by bos.
    ``notifier``: the program that bosserver runs when a process ends, if any.
    """

    summary: str
    commands: tuple[str, ...]
    last_error: str
    last_start: str
    notifier: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return self.summary.partition("(type is ")[2].partition(")")[0]

    @property
    def running(self) -> bool:
        return "currently running normally" in self.summary

    @property
    def given_up(self) -> bool:
        """Whether bosserver has stopped restarting it, or does so only with growing delays."""
        return "disabled" in self.summary or "too many errors" in self.summary

    @property
    def stopped(self) -> bool:
        """Whether it was stopped by ``bos shutdown`` or ``bos stop``; for a moment, by ``bos
        restart`` as well. bosserver itself stops it only after too many errors.
        """
        return "disabled" in self.summary and "too many errors" not in self.summary


def is_dafs(summary: str) -> bool:
    """Whether the state of an instance, as worded by bos, says that it is of type dafs, the one
    that fstune creates again for every change.
    """
    return "(type is dafs)" in summary


def bos_status(text: str) -> InstanceStatus:
    """Parse ``bos status HOST INSTANCE -long``."""
    summary = re.search(r"^Instance \S+, (.*?)$", text, re.MULTILINE)
    commands = tuple(re.findall(r"^    Command \d+ is '(.*)'$", text, re.MULTILINE))
    if summary is None or not commands:
        raise ValueError(f"bos status: no instance in {text.strip()[:200]!r}")
    error = re.search(r"^    Last error exit at (.*?)$", text, re.MULTILINE)
    start = re.search(r"^    Process last started at (.*)$", text, re.MULTILINE)
    notifier = re.search(r"^    Notifier  is '(.+)'$", text, re.MULTILINE)
    return InstanceStatus(
        " ".join(summary.group(1).rstrip(".").split()),
        commands,
        "" if error is None else error.group(1).partition(", ")[2],
        "" if start is None else start.group(1),
        () if notifier is None else (notifier.group(1),),
    )


def bos_instances(text: str) -> dict[str, InstanceStatus]:
    """Parse ``bos status HOST -long``: all instances, by name."""
    parts = re.split(r"^(?=Instance )", text, flags=re.MULTILINE)
    matches = ((part, re.match(r"Instance (\S+), ", part)) for part in parts)
    return {match[1]: bos_status(part) for part, match in matches if match is not None}


@dataclass(frozen=True, slots=True)
class ConfiguredInstance:
    """An instance as in BosConfig, see ``InstanceStatus``."""

    type: str
    commands: tuple[str, ...]
    notifier: tuple[str, ...] = ()

    def is_as(self, status: InstanceStatus) -> bool:
        """Whether bosserver has the instance so, whatever state it is in."""
        return (
            self.type == status.type
            and self.commands == status.commands
            and self.notifier == status.notifier
        )


def bos_config(text: str) -> dict[str, ConfiguredInstance]:
    """The instances in a BosConfig, by name."""
    instances: dict[str, ConfiguredInstance] = {}
    name = ""
    for line in text.splitlines():
        if entry := re.match(r"bnode (\S+) (\S+) \d+(?: (\S+))?", line):
            name = entry[2]
            instances[name] = ConfiguredInstance(entry[1], (), (entry[3],) if entry[3] else ())
        elif line == "end":
            name = ""
        elif name and line.startswith("parm "):
            one = instances[name]
            instances[name] = replace(one, commands=(*one.commands, line.removeprefix("parm ")))
    return instances


@dataclass(frozen=True, slots=True)
class StartLog:
    """The latest start in FileLog. ``command``: its command line, None if there is no start."""

    command: str | None
    started: bool
    last_line: str


def file_log(text: str) -> StartLog:
    """Parse the part of FileLog since a requested restart (possibly several attempts)."""
    lines = text.splitlines()
    newest = max((i for i, line in enumerate(lines) if _STARTING in line), default=None)
    last = lines[-1] if lines else ""
    if newest is None:
        return StartLog(None, False, last)
    command = lines[newest].partition(_STARTING)[2].rpartition(")")[0]
    started = any(_STARTED in line for line in lines[newest:])
    return StartLog(command, started, last)


def xstat(text: str) -> dict[str, int]:
    """Parse the "number name" lines of ``xstat_fs_test``; per-call lines are ignored."""
    pairs = re.findall(r"^\s+(\d{1,19}) ([A-Za-z]\w*)\s*$", text, re.MULTILINE)
    if not pairs:
        # The reason is at the end of the text, after a heading.
        raise ValueError(f"xstat_fs_test: no values in {text.strip()[-200:]!r}")
    return {name: int(number) for number, name in pairs}


def idle_threads(text: str) -> int:
    """The number of idle threads, from ``rxdebug HOST PORT -noconns``."""
    match = re.search(r"^(\d+) threads? (?:is|are) idle", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"rxdebug: no idle threads in {text.strip()[:200]!r}")
    return int(match.group(1))


def clients_connected(text: str) -> frozenset[str]:
    """The addresses of clients that have called recently.

    Parses ``rxdebug HOST PORT -allconnections -onlyserver``.
    """
    if "Showing only server connections" not in text:
        raise ValueError(f"rxdebug: no list of server connections in {text.strip()[:200]!r}")
    return frozenset(re.findall(r"^Connection from host ([0-9.]+), port", text, re.MULTILINE))


def volumes(text: str) -> frozenset[str]:
    """The names of the volumes on a server, from ``vos listvol HOST``.

    Backup and read-only copies count under the name of the original volume.
    """
    if "Total volumes onLine" not in text:
        raise ValueError(f"vos listvol: no list of volumes in {text.strip()[:200]!r}")
    names = re.findall(r"^(\S+)\s+\d+ (?:RW|RO|BK)\s", text, re.MULTILINE)
    # Volumes that are busy or cannot be attached have no such line, but exist.
    nameless = re.findall(r"^\*+ (?:Could not attach volume|Volume) (\d+)", text, re.MULTILINE)
    of_copies = {name.removesuffix(".readonly").removesuffix(".backup") for name in names}
    return frozenset(of_copies | set(nameless))


def offline_volumes(text: str) -> frozenset[str]:
    """The names of the volumes that the fileserver does not serve, from ``vos listvol HOST``."""
    return frozenset(re.findall(r"^(\S+)\s+\d+ RW\s.*\sOff-line\s*$", text, re.MULTILINE))


def volume_partitions(text: str) -> dict[str, str]:
    """The partition of each volume that has a name, from ``vos listvol HOST``."""
    partitions: dict[str, str] = {}
    partition = ""
    for line in text.splitlines():
        if head := re.match(r"Total number of volumes on server \S+ partition (\S+):", line):
            partition = head[1]
        elif volume := re.match(r"(\S+)\s+\d+ RW\s", line):
            partitions[volume[1]] = partition
    return partitions


def partitions_free_kib(text: str) -> dict[str, int]:
    """The free space of each partition of a server in KiB, from ``vos partinfo HOST``."""
    lines = re.findall(r"^Free space on partition (\S+): (-?\d+) K blocks", text, re.MULTILINE)
    return {name: int(free) for name, free in lines}


def volume_quota(text: str) -> tuple[int, int]:
    """Quota (0: none) and usage of a volume in KiB, from ``vos examine``."""
    quota = re.search(r"^\s+MaxQuota\s+(\d+) K", text, re.MULTILINE)
    used = re.search(r"^\S+\s+\d+ RW\s+(\d+) K", text, re.MULTILINE)
    if quota is None or used is None:
        raise ValueError(f"vos examine: no quota in {text.strip()[:200]!r}")
    return int(quota[1]), int(used[1])


def udp_receive_buffer(text: str, port: int = FILESERVER_PORT) -> int:
    """The receive buffer of a UDP port in bytes, as counted by the kernel, from ``ss -uamnH``."""
    match = re.search(rf"\S+:{port}\s[^\n]*(?:\n\s*)?skmem:\([^)]*\brb(\d+)", text)
    if match is None:
        raise ValueError(f"ss: no UDP socket on port {port} in {text.strip()[:200]!r}")
    return int(match.group(1))


def udp_port_of(text: str, pids: frozenset[int]) -> int | None:
    """The UDP port that one of these processes has open, from ``ss -uanpH``; None if none has.

    Processes are identified by PID, since any user may give a process any name.
    """
    sockets = re.findall(r"^\S+\s+\d+\s+\d+\s+\S+:(\d+)\s(.*)$", text, re.MULTILINE)
    for port, users in sockets:
        if pids.intersection(map(int, re.findall(r"\bpid=(\d+)\b", users))):
            return int(port)
    return None


_CACHE_WORDS = {
    "Chunk files": "chunk_files",
    "Stat caches": "stat_caches",
    "Data caches": "data_caches",
    "Volume caches": "volume_caches",
    "Chunk size": "chunk_size_bytes",
    "Cache size": "cache_size_kib",
}


def cache_configuration(text: str) -> dict[str, int | bool]:
    """Parse ``cmdebug -cache``; ``memory_cache``: whether the cache is in memory."""
    lines = dict(re.findall(r"^([A-Z][a-z]+ [a-z]+):\s+(\S+)", text, re.MULTILINE))
    try:
        values: dict[str, int | bool] = {
            key: int(lines[word]) for word, key in _CACHE_WORDS.items()
        }
        values["memory_cache"] = lines["Cache type"] == "memory"
    except (KeyError, ValueError) as problem:
        start = text.strip()[:200]
        raise ValueError(f"cmdebug: no cache configuration in {start!r} ({problem})") from problem
    return values


def encryption(text: str) -> str:
    """The encryption of new connections, from ``fs getcrypt``: "on", "off", or "" for other text.

    Existing connections may differ.
    """
    match = re.search(r"^Security level is currently (crypt|clear)\b", text, re.MULTILINE)
    return "" if match is None else {"crypt": "on", "clear": "off"}[match[1]]


def cache_info(text: str) -> tuple[str, str, int]:
    """Mount point, cache directory and cache size in KiB, from a client's cacheinfo file."""
    match = re.fullmatch(r"\s*([^:\s]+):([^:\s]+):(\d+)\s*", text)
    if match is None:
        raise ValueError(f"cacheinfo: no mount point, directory and size in {text.strip()[:200]!r}")
    return match[1], match[2], int(match[3])


def has_tokens(text: str) -> bool:
    """Whether ``tokens`` lists any tokens."""
    return re.search(r"^.*[Tt]okens for ", text, re.MULTILINE) is not None


def has_valid_tokens(text: str, cell: str) -> bool:
    """Whether ``tokens`` lists an unexpired one for a cell."""
    ours = re.compile(rf"[Tt]okens for (?:afs@)?{re.escape(cell)} \[(?!>> Expired <<)")
    return ours.search(text) is not None


def own_cell(text: str) -> str:
    """The client's own cell, from ``fs wscell``; "" for other text."""
    match = re.search(r"^This workstation belongs to cell '([^']+)'", text, re.MULTILINE)
    return "" if match is None else match[1]


def ticket_life_s(text: str) -> float | None:
    """The shortest lifetime of a ticket in seconds, from ``klist`` in the C locale.

    It is counted from the start of the ticket's validity. None if it cannot be determined.
    """
    lifetimes_s = []
    for spans in re.findall(r"^(\S+ \S+)  (\S+ \S+)  \S+@", text, re.MULTILINE):
        for form in ("%m/%d/%y %H:%M:%S", "%m/%d/%Y %H:%M:%S"):
            with suppress(ValueError):
                starts, ends = (timegm(time.strptime(one, form)) for one in spans)
                lifetimes_s.append(float(ends - starts))
    return min(lifetimes_s, default=None)


def unit_properties(text: str) -> dict[str, str]:
    """The properties of a unit, from ``systemctl show``."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


@dataclass(frozen=True, slots=True)
class Connection:
    """One Rx connection of a client to a server.

    ``key``: its unique identifier; ``serial``: of its latest packet. ``level``: its rxkad security
    level (``clear``, ``auth`` or ``crypt``), "" for an anonymous connection.
    """

    address: str
    port: int
    key: str
    serial: int
    level: str


def client_connections(text: str) -> tuple[Connection, ...]:
    """The connections of a cache manager to servers.

    Parses ``rxdebug HOST 7001 -allconnections -onlyclient``.
    """
    if "Showing only client connections" not in text:
        raise ValueError(f"rxdebug: no list of client connections in {text.strip()[:200]!r}")
    connections = []
    for each in re.split(r"^Connection from host ", text, flags=re.MULTILINE)[1:]:
        head = re.match(
            r"([0-9.]+), port (\d+), (C?[cu]id [0-9a-f/]+)[^\n]*\n\s+serial (\d+),", each
        )
        if head is None:
            raise ValueError(f"rxdebug: no connection in {each.strip()[:200]!r}")
        level = re.search(r"^  rxkad: level (\w+)", each, re.MULTILINE)
        words = head[1], int(head[2]), head[3], int(head[4])
        connections.append(Connection(*words, "" if level is None else level[1]))
    return tuple(connections)


def store_asynchrony_kib(text: str) -> int:
    """How much data in KiB may be stored after a file is closed, from ``fs storebehind``."""
    match = re.search(r"^Default store asynchrony is (\d+) kbytes", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"fs storebehind: no default in {text.strip()[:200]!r}")
    return int(match[1])


def bypass_threshold(text: str) -> int:
    """The file size from which reads bypass the cache (-1: never), from ``fs bypassthreshold``."""
    match = re.search(r"^Cache bypass threshold (-?\d+)", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"fs bypassthreshold: no threshold in {text.strip()[:200]!r}")
    return int(match[1])
