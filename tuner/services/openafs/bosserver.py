"""What bosserver, which keeps the fileserver running, says of it."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, Connector
from tuner.services.openafs import parse


@dataclass(frozen=True, slots=True)
class FileserverPlace:
    """Where the fileserver is: address as its clients see it, the directory where fstune may keep
    its files on that host, instance name and log file.
    """

    address: str
    directory: str
    instance: str = "dafs"
    log: str = "/var/log/openafs/FileLog"


def status_of(host: Connector, place: FileserverPlace) -> parse.InstanceStatus | None:
    """The status of the instance in bosserver; None when there is no such instance."""
    argv = ["bos", "status", place.address, place.instance, "-long", "-localauth"]
    result = host.ask(argv)
    if "no such entity" in result.stderr:
        return None
    # It prints nothing, and succeeds, when bosserver ends meanwhile.
    if result.status != 0 or not result.stdout.strip():
        raise CommandFailed(host.host, result)
    try:
        return parse.bos_status(result.stdout)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
