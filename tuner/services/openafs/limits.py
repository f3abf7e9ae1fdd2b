"""Limits of a host that cap its programs: memory and open files, read from its kernel."""

from __future__ import annotations

from tuner.hosts.connector import Connector, check, understood
from tuner.measure.diagnostics.process import process_status
from tuner.services.facts import rmem_max_bytes


def server_limits(host: Connector, fixed_command: str) -> dict[str, int]:
    """The limits of a server's host, by the names that the space uses."""
    return {
        "net_core_rmem_max": rmem_max_bytes(host),
        "memory_bytes": memory_bytes(host),
        "nofile": open_files(host),
        "fixed_command_length": len(fixed_command),
    }


def memory_bytes(host: Connector) -> int:
    """Read the total memory of a host in bytes."""
    with understood(host.host):
        return process_status(check(host, ["cat", "/proc/meminfo"]))["MemTotal"] * 1024


def open_files(host: Connector) -> int:
    """Read the hard limit on open files of a fileserver, which inherits it from bosserver."""
    with understood(host.host):
        argv = ["prlimit", "--nofile", "--noheadings", "--output=HARD"]
        if (pid := _bosserver(host)) is not None:
            argv += ["--pid", str(pid)]
        return int(check(host, argv))


def _bosserver(host: Connector) -> int | None:
    """The PID of the user's own bosserver, normally root's; None if there is none.

    Any local user can give a process this name. The owner of /proc/PID does not tell: it is root
    for every process that has made itself unreadable.
    """
    pids = [int(pid) for pid in host.ask(["pidof", "bosserver"]).stdout.split()]
    if not pids:
        return None
    statuses = [f"/proc/{pid}/status" for pid in ("self", *pids)]
    # One that has ended meanwhile only fails the exit status.
    lines = host.ask(["grep", "--with-filename", "--no-messages", "^Uid:", *statuses]).stdout
    users = dict(line.split(":", 1) for line in lines.splitlines())
    own = users.get(statuses[0])
    of_own = (p for p, file in zip(pids, statuses[1:], strict=True) if users.get(file) == own)
    return None if own is None else next(of_own, None)
