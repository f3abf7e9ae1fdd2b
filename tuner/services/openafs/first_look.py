"""Inspection of hosts that have no testbed file yet. Read-only.

The results are used to draft a testbed file. Whether the testbed may be changed is decided later,
from that file, as for any other (``preflight``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector, check
from tuner.services.openafs import fuse, kernel_client, parse
from tuner.services.openafs.cache_manager import cache_info
from tuner.services.openafs.facts import patiently
from tuner.services.openafs.kernel_client import directories
from tuner.services.openafs.server_log import find_log

#: Where a server keeps the name of its cell: the paths of Debian, and of OpenAFS itself.
_CELL_NAMES = ("/etc/openafs/server/ThisCell", "/usr/afs/etc/ThisCell")
#: The kernel client's configuration files, by the key for them in a testbed file.
_UNIT_FILES = {"systemd": "/etc/openafs/afs.conf", "sysconfig": "/etc/sysconfig/openafs"}
_VARIABLES = {"systemd": "OPTIONS", "sysconfig": "AFSD_ARGS"}
_MOUNT, _CACHE = "/afs", "/var/cache/openafs"
_TUNED = re.compile(r"\b1\.8\.")


@dataclass(frozen=True, slots=True)
class ServerLook:
    """The state of a fileserver host.

    ``instance``: the one of type dafs. ``version``: of its programs. ``volumes``: all but
    ``root_volumes``, those of the cell. ``cell``: empty if unknown. ``log``: the fileserver's log;
    empty if unknown.
    """

    addresses: tuple[str, ...]
    instance: str
    version: str
    volumes: tuple[str, ...]
    root_volumes: tuple[str, ...]
    cell: str
    log: str = ""

    @property
    def tunable(self) -> bool:
        """Whether there is a search space for its version."""
        return _TUNED.search(self.version) is not None


@dataclass(frozen=True, slots=True)
class ClientLook:
    """The state of a client host.

    ``control``: the key in a testbed file for how its client is started; ``words``: keys and values
    that differ from the defaults there.
    """

    host: str
    control: str
    words: tuple[tuple[str, str], ...]

    @property
    def program(self) -> str:
        """The client program."""
        return fuse.PROGRAM if self.control == "fuse" else kernel_client.PROGRAM


def look_at_server(host: Connector) -> ServerLook:
    """Inspect a fileserver host. Raises TestbedError if it runs no fileserver of type dafs."""
    addresses = _addresses(check(host, ["ip", "-oneline", "address", "show", "scope", "global"]))
    if not addresses:
        raise TestbedError(f"{host.host}: it has no address that clients could know it by")
    status = check(host, ["bos", "status", addresses[0], "-long", "-localauth"])
    try:
        instances = parse.bos_instances(status)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
    instance = next((name for name, each in instances.items() if parse.is_dafs(each.summary)), None)
    if instance is None:
        types = (f"{name} of type {each.type}" for name, each in instances.items())
        running = ", ".join(types) or "none"
        raise TestbedError(
            f"{host.host}: bosserver has no instance of type dafs, which is what fstune tunes; "
            f"its instances: {running}"
        )
    version_text = check(host, ["rxdebug", addresses[0], str(parse.BOSSERVER_PORT), "-version"])
    try:
        volumes = parse.volumes(patiently(host, ["vos", "listvol", addresses[0], "-localauth"]))
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
    roots = sorted(name for name in volumes if name.startswith("root."))
    return ServerLook(
        addresses=addresses,
        instance=instance,
        version=version_text.partition("version:")[2].strip(),
        volumes=tuple(sorted(volumes.difference(roots))),
        root_volumes=tuple(roots),
        cell=_first_text(host, _CELL_NAMES),
        log=find_log(host, instances[instance].commands[0]),
    )


def look_at_client(host: Connector) -> ClientLook:
    """Inspect a client host. Raises TestbedError if no OpenAFS client runs there."""
    processes = host.ask(["ps", "-C", fuse.PROGRAM, "-o", "ruid=", "-o", "args="]).stdout
    # Only what root has started: any user may give a process that name, and any arguments, even one
    # that runs as root, such as a program that asks for a password.
    users_and_words = (line.split() for line in processes.splitlines())
    running = [words for user, *words in users_and_words if user == "0"]
    if running:
        words = running[0]
        flags = {flag: value for flag, value in pairwise(words) if flag.startswith("-")}
        settings = {
            "mount": flags.get("-mountdir", _MOUNT),
            "cache": flags.get("-cachedir") or _configured_cache(host),
        }
        return ClientLook(host.host, "fuse", _unusual(settings, _CACHE))
    mounts = re.findall(r"^\S+ (\S+) afs ", check(host, ["cat", "/proc/mounts"]), re.MULTILINE)
    if not mounts:
        raise TestbedError(
            f"{host.host}: neither {fuse.PROGRAM} nor the kernel client of OpenAFS runs there; "
            "start it as you want fstune to find and leave it"
        )
    for control, file in _UNIT_FILES.items():
        if host.ask(["test", "-f", file]).status == 0:
            mount, cache = directories(host, file, _VARIABLES[control])
            usual = _CACHE if control == "systemd" else "/usr/vice/cache"
            settings = {"mount": mount, "cache": cache}
            return ClientLook(host.host, control, _unusual(settings, usual))
    raise TestbedError(
        f"{host.host}: the kernel client runs, but none of {', '.join(_UNIT_FILES.values())} is "
        "there; write the testbed file by hand, see docs/testbeds.md"
    )


def _configured_cache(host: Connector) -> str:
    """The cache directory from the cacheinfo file, or the default if there is no such file."""
    try:
        return cache_info(host)[1]
    except TestbedError:
        return _CACHE


def _unusual(settings: dict[str, str], cache: str) -> tuple[tuple[str, str], ...]:
    usual = {"mount": _MOUNT, "cache": cache}
    return tuple((name, value) for name, value in settings.items() if value != usual[name])


def _addresses(text: str) -> tuple[str, ...]:
    addresses: list[str] = re.findall(r"\binet ([0-9.]+)/", text)
    return tuple(dict.fromkeys(addresses))


def _first_text(host: Connector, paths: Sequence[str]) -> str:
    for path in paths:
        result = host.ask(["cat", "--", path])
        if result.status == 0:
            return result.stdout.strip()
    return ""
