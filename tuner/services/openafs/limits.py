"""Limits of a host, read from its kernel."""

from __future__ import annotations

from tuner.hosts.connector import Connector, check, understood
from tuner.measure.diagnostics.process import process_status


def memory_bytes(host: Connector) -> int:
    """Read the total memory of a host in bytes."""
    with understood(host.host):
        return process_status(check(host, ["cat", "/proc/meminfo"]))["MemTotal"] * 1024


def open_files(host: Connector) -> int:
    """Read the hard limit on open files of a fileserver, which inherits it from bosserver."""
    with understood(host.host):
        argv = ["prlimit", "--nofile", "--noheadings", "--output=HARD"]
        if pids := host.ask(["pidof", "bosserver"]).stdout.split():
            argv += ["--pid", str(int(pids[0]))]
        return int(check(host, argv))
