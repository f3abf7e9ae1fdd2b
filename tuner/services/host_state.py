"""State of a host, besides the programs, that affects measurements: kernel, disks and sysctls.

It is read by a single read-only command. Items that a host does not report are omitted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tuner.hosts.connector import Connector

#: Kernel settings that affect file services: socket buffers and writeback of dirty pages.
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
#: Takes the sysctl files as arguments; not every kernel or namespace has all of them.
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
#: Characters that separate items in the output must not occur within one.
_SEPARATORS = re.compile(r"[;=\s]+")
#: Device types that are not listed as layers, since they do not affect speed.
_PLAIN = ("disk", "part")


@dataclass(frozen=True, slots=True)
class HostState:
    """The state of one host.

    ``items``: pairs of name and value; the names are ``kernel``, mount points (the value describes
    the file system and its devices) and sysctls.
    """

    host: str
    items: tuple[tuple[str, str], ...]

    def text(self) -> Iterator[str]:
        """Yield each item as "HOST NAME = VALUE"."""
        for what, value in self.items:
            yield f"{self.host} {what} = {value}"

    def without(self, names: Collection[str]) -> HostState:
        """Return a copy without these items, which the campaign sets itself."""
        return HostState(self.host, tuple(item for item in self.items if item[0] not in names))


def host_state(host: Connector, paths: Sequence[str], prefixes: Sequence[str] = ()) -> HostState:
    """Read the state of a host. Raises TestbedError when the host cannot be reached.

    ``paths``: each selects the file system that contains it. ``prefixes``: each selects all mount
    points that start with it; if there are none, it is treated as a path.
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
    """A block device; ``parents``: kernel names of the devices it is built on."""

    parents: frozenset[str]
    kind: str
    rotates: bool
    model: str


def _devices(lines: str) -> dict[str, _Device]:
    """Parse the output of lsblk: all block devices, under each of their names."""
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
    """Yield the mount points for paths and prefixes, each with its type and its devices."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in lines.splitlines():
        source, target, kind, *_ = (*map(_plain, line.split(" ")), "", "", "")
        if target.startswith("/"):
            mounts[target] = source, kind  # a later mount hides earlier ones
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
    """Yield the layers of a device, down to its disks."""
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
    """Decode the escapes in the output of mounts and lsblk."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16) if m[1] else int(m[2], 8)), text)


def _value(text: str) -> str:
    return _SEPARATORS.sub(" ", text).strip()
