"""What OpenAFS is doing on the hosts of a testbed: read, nothing changed.

Owns the commands that ask and the records of the answers; what the answers mean for a campaign is
``preflight``'s.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector, check
from tuner.services.openafs import parse
from tuner.services.openafs.cache_manager import cache_info
from tuner.services.openafs.file import ClientSection, TestbedFile, UnitSection
from tuner.services.openafs.tokens import TokenPlace, why_no_ticket

#: The numbers of the processes that use files below a mount point.
_HOLDERS = r"""
find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd -maxdepth 1 \
    \( -lname "$1" -o -lname "$1/*" \) 2> /dev/null | cut -d/ -f3 | sort -nu
"""
_TRIES, _PAUSE_S = 5, 1.0


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

    def lines(self) -> dict[str, str]:
        """All of it for people, by what it is; the first command stands for all."""
        quota = f"{self.quota_kib >> 10} MiB" if self.quota_kib else "none"
        return {
            "state": self.state,
            "command": next(iter(self.commands), "none"),
            "volumes": ", ".join(sorted(self.volumes)),
            "quota": f"{quota}, {self.used_kib >> 10} MiB used",
            "clients": ", ".join(sorted(self.clients)) or "none lately",
        }


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """A client's cache manager. ``sees``: whether it shows the testbed's path, or is down for a
    journal to put back. ``cache_info``: mount point and cache directory by its own file.
    ``holders``: processes that use its files; ``no_ticket``: why the keytab that it is to use gives
    none, "" when it does or there is no such keytab. The last four are the kernel client's only.
    """

    host: str
    sees: bool
    cache_info: tuple[str, str] | None = None
    holders: tuple[str, ...] = ()
    tokens: bool = False
    no_ticket: str = ""


def client_facts(host: Connector, file: TestbedFile, client: ClientSection) -> ClientFacts:
    """Ask a client about its cache manager. Raises TestbedError."""
    way = client.control.way
    journal = f"{file.restore.directory}/restore/cache_manager"
    sees = _sees(host, file.path, client) or host.ask(["test", "-d", journal]).status == 0
    if not isinstance(way, UnitSection):
        return ClientFacts(host.host, sees)
    pids = host.ask(["sh", "-c", _HOLDERS, "sh", way.mount]).stdout.split()
    tokens = parse.has_tokens(host.ask(["tokens"]).stdout)
    token = token_place(client, f"{file.restore.directory}/restore")
    no_ticket = "" if token is None else why_no_ticket(host, token)
    return ClientFacts(host.host, sees, cache_info(host)[:2], tuple(pids), tokens, no_ticket)


def _sees(host: Connector, path: str, client: ClientSection) -> bool:
    """Whether a client shows a directory there. One that lets in nobody without a token will do
    where there is to be a token: there is none yet.
    """
    command = ["env", "LC_ALL=C", "timeout", "20", "stat", "-L", "-c", "%F", "--", path]
    result = host.ask(command)
    if result.status == 0:
        return result.stdout.strip() == "directory"
    return client.token is not None and ": Permission denied" in result.stderr


def token_place(client: ClientSection, directory: str) -> TokenPlace | None:
    """Where a client's token comes from; None where it works without one of ours. ``directory``:
    of its journals.
    """
    token = client.token
    if token is None:
        return None
    return TokenPlace(
        keytab=token.keytab,
        principal=token.principal,
        lifetime_s=token.lifetime,
        cell=token.cell,
        realm=token.realm,
        directory=directory,
    )


def server_facts(host: Connector, address: str, instance: str, volume: str) -> ServerFacts:
    """Ask the programs of a fileserver host. Raises TestbedError when one does not answer."""
    asking = ["bos", "status", address, instance, "-long", "-localauth"]
    rx = ["rxdebug", address, str(parse.FILESERVER_PORT), "-allconnections", "-onlyserver"]
    try:
        status = parse.bos_status(check(host, asking))
        clients = parse.clients_connected(check(host, rx))
        volumes = parse.volumes(_patiently(host, ["vos", "listvol", address, "-localauth"]))
        volume_text = check(host, ["vos", "examine", volume, "-localauth"])
        quota_kib, used_kib = parse.volume_quota(volume_text)
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
