"""Limits of a host, read from its kernel."""

from __future__ import annotations

from tuner.hosts.connector import Connector, check, understood
from tuner.measure.diagnostics.process import process_status


def kernel_setting(host: Connector, name: str) -> int:
    """Read the value of a sysctl such as ``net.core.rmem_max``."""
    with understood(host.host):
        return int(check(host, ["cat", "/proc/sys/" + name.replace(".", "/")]))


def memory_bytes(host: Connector) -> int:
    """Read the total memory of a host in bytes."""
    with understood(host.host):
        return process_status(check(host, ["cat", "/proc/meminfo"]))["MemTotal"] * 1024


def open_files(host: Connector) -> int:
    """Read the hard limit on open files per process."""
    with understood(host.host):
        return int(check(host, ["prlimit", "--nofile", "--noheadings", "--output=HARD"]))
