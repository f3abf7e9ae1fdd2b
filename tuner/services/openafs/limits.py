"""What a host allows, read from its kernel."""

from __future__ import annotations

from tuner.hosts.connector import Connector, check, understood
from tuner.measure.diagnostics.process import process_status


def kernel_setting(host: Connector, name: str) -> int:
    """The value of a sysctl such as ``net.core.rmem_max``."""
    with understood(host.host):
        return int(check(host, ["cat", "/proc/sys/" + name.replace(".", "/")]))


def memory_bytes(host: Connector) -> int:
    """All memory of a host."""
    with understood(host.host):
        return process_status(check(host, ["cat", "/proc/meminfo"]))["MemTotal"] * 1024


def open_files(host: Connector) -> int:
    """How many files a process may have open at most."""
    with understood(host.host):
        return int(check(host, ["prlimit", "--nofile", "--noheadings", "--output=HARD"]))
