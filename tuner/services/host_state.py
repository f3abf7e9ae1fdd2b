"""What of a host a measurement depends on besides the programs: kernel, disks, kernel settings.

Read by one command, which changes nothing. What a host does not tell is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tuner.hosts.connector import Connector

#: Settings of the kernel that file services live with: buffers of sockets, and of written pages.
SYSCTLS = (
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
)
_KERNEL = "kernel.osrelease"
_FILES = {f"/proc/sys/{name.replace('.', '/')}": name for name in (_KERNEL, *SYSCTLS)}
#: Told the files of settings; not every kernel, and not every namespace, has all of them.
_LOOK = """\
grep --no-messages --with-filename "" "$@"
echo =
cat /proc/self/mounts
echo =
lsblk --pairs --output NAME,KNAME,PKNAME,TYPE,ROTA,MODEL 2> /dev/null
true
"""
_PAIR = re.compile(r'([A-Z]+)="([^"]*)"')
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|([0-7]{3}))")
#: What separates items is not part of one.
_SEPARATORS = re.compile(r"[;=\s]+")
#: Layers between a disk and a file system that say nothing of how fast it is.
_PLAIN = ("disk", "part")


@dataclass(frozen=True, slots=True)
class HostState:
    """A host. ``items``: what was read, by what it is: ``kernel``, mount points with what they are
    on, names of sysctls.
    """

    host: str
    items: tuple[tuple[str, str], ...]

    def text(self) -> Iterator[str]:
        """Each as "HOST WHAT = VALUE"."""
        for what, value in self.items:
            yield f"{self.host} {what} = {value}"

    def without(self, names: Collection[str]) -> HostState:
        """The same but for these items, which a campaign sets itself."""
        return HostState(self.host, tuple(item for item in self.items if item[0] not in names))


def host_state(host: Connector, paths: Sequence[str], prefixes: Sequence[str] = ()) -> HostState:
    """Ask a host. ``paths``: each stands for the file system that it is in; ``prefixes``: each for
    all mount points that begin with it, or as a path where there are none. Raises TestbedError when
    the host cannot be reached.
    """
    output = host.ask(["sh", "-c", _LOOK, "sh", *_FILES]).stdout
    settings, mounts, disks = (*f"\n{output}".split("\n=\n", 2), "", "")[:3]
    return HostState(
        host.host,
        (*_settings(settings), *_file_systems(mounts, _devices(disks), paths, prefixes)),
    )


def _settings(lines: str) -> Iterator[tuple[str, str]]:
    lines_by_file = dict(line.split(":", 1) for line in lines.splitlines() if ":" in line)
    for file, name in _FILES.items():
        if value := _value(lines_by_file.get(file, "")):
            yield "kernel" if name == _KERNEL else name, value


@dataclass(frozen=True, slots=True)
class _Device:
    """A block device, with the kernel's names of those that it is made of."""

    parents: frozenset[str]
    kind: str
    rotates: bool
    model: str


def _devices(lines: str) -> dict[str, _Device]:
    """All block devices, by each of their names."""
    parents: defaultdict[str, set[str]] = defaultdict(set)
    rows = [dict(_PAIR.findall(line)) for line in lines.splitlines()]
    for row in rows:
        parents[row.get("KNAME", "")] |= {row["PKNAME"]} if row.get("PKNAME") else set()
    return {
        _plain(row[key]): _Device(
            frozenset(parents[row.get("KNAME", "")]),
            row.get("TYPE", ""),
            row.get("ROTA") == "1",
            _value(_plain(row.get("MODEL", ""))),
        )
        for row in rows
        for key in ("NAME", "KNAME")
        if row.get(key)
    }


def _file_systems(
    lines: str, devices: dict[str, _Device], paths: Sequence[str], prefixes: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The mount points behind paths and prefixes, each with its type and what it is on."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in lines.splitlines():
        source, target, kind, *_ = (*map(_plain, line.split(" ")), "", "", "")
        if target.startswith("/"):
            mounts[target] = source, kind  # what was mounted last covers the others
    targets_by_prefix = {
        prefix: sorted(t for t in mounts if t.startswith(prefix)) for prefix in prefixes
    }
    targets_by_name = {
        target: target for targets in targets_by_prefix.values() for target in targets
    }
    for path in (*paths, *(prefix for prefix, targets in targets_by_prefix.items() if not targets)):
        holders = [t for t in mounts if path == t or path.startswith(f"{t.rstrip('/')}/")]
        if holders:
            targets_by_name[path] = max(holders, key=len)
    for name, target in targets_by_name.items():
        source, kind = mounts[target]
        on = " on ".join([kind, *_layers(source.rpartition("/")[2], devices)])
        yield name, _value(on)


def _layers(name: str, devices: dict[str, _Device]) -> Iterator[str]:
    """What a device is made of, down to its disks."""
    kinds: dict[str, None] = {}
    disks: set[str] = set()
    pending, visited = [name], set[str]()
    while pending:
        now = pending.pop()
        device = devices.get(now)
        if device is None or now in visited:
            continue
        visited.add(now)
        pending += sorted(device.parents)
        if device.kind not in _PLAIN:
            kinds[device.kind] = None
        if not device.parents:
            turns = "rotating" if device.rotates else "not rotating"
            disks.add(f"{device.model or 'a disk of no known model'} ({turns})")
    yield from kinds
    if disks:
        yield " and ".join(sorted(disks))


def _plain(text: str) -> str:
    """A name as it is, without the escapes of mounts and lsblk."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16) if m[1] else int(m[2], 8)), text)


def _value(text: str) -> str:
    return _SEPARATORS.sub(" ", text).strip()
