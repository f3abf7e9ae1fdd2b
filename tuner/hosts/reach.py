"""The sections ``reach`` and ``restore`` of testbed files: how hosts are reached and restored.

They are the same for every kind of service with hosts. A testbed file refers to real machines in
use, so every value that becomes a command argument later is validated strictly.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field, field_validator, model_validator

from tuner.documents import Duration, Section, duplicates

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Neither a leading dash, which would be an option, nor a colon, which starts a port.
_HOST = re.compile(rf"(?!.{{254}}){_LABEL}(\.{_LABEL})*")
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\$?")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
# No spaces or quotes: such paths also occur in lists of the kernel and on command lines.
_PATH = re.compile(r"(/[A-Za-z0-9_.:+@%=~-]+)+")


def matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
    """Return a validator for text: an error says that it is not ``what``."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"not {what}")
        return value

    return AfterValidator(check)


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError(f"{value!r} is not an IP address") from None


def _plain_path(value: str) -> str:
    if not _PATH.fullmatch(value) or {"..", "."} & set(value.split("/")):
        raise ValueError("not an absolute path of letters, digits and -_.:+@%=~")
    return value


Host = Annotated[str, matching(_HOST, "a host name or an IPv4 address")]
User = Annotated[str, matching(_USER, "a user name")]
Word = Annotated[str, matching(_WORD, "a name of letters, digits, dots, hyphens and underscores")]
Address = Annotated[str, AfterValidator(_address)]
HostPath = Annotated[str, AfterValidator(_plain_path)]


class JumpSection(Section):
    """A jump host. Its host key is checked like any other."""

    address: Host
    user: User = "root"
    port: int = Field(default=22, ge=1, le=65535)
    key: Path | None = None


class NetnsSection(Section):
    """A node of a private cell that is already up on this machine."""

    cell: Word
    node: Word

    def __str__(self) -> str:
        return f"node {self.node} of cell {self.cell}"


class SshSection(Section):
    """A host that is reached over SSH; users other than root run commands with ``sudo -n``.

    ``key``: a private key file without passphrase; if None, the agent's keys are tried.
    ``known_hosts``: must contain its host key; nothing is ever added to it. ``netns``: connect from
    the network namespace of this node of a private cell.
    """

    address: Host
    user: User = "root"
    port: int = Field(default=22, ge=1, le=65535)
    key: Path | None = None
    agent: bool = True
    known_hosts: Path = Path("~/.ssh/known_hosts")
    sudo: bool | None = None
    jump: JumpSection | None = None
    netns: NetnsSection | None = None

    @property
    def by_sudo(self) -> bool:
        """Whether commands are run with sudo: by default, for every user except root."""
        return self.user != "root" if self.sudo is None else self.sudo


class LocalSection(Section):
    """This machine."""


class ReachSection(Section):
    """How a host is reached: exactly one way."""

    ssh: SshSection | None = None
    netns: NetnsSection | None = None
    local: LocalSection | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ReachSection:
        if sum(way is not None for way in (self.ssh, self.netns, self.local)) != 1:
            raise ValueError("name exactly one way: ssh, netns or local")
        return self

    @property
    def host(self) -> object:
        """What tells the host apart from others; the account on it does not."""
        ssh = self.ssh
        return self if ssh is None else (ssh.address.lower(), ssh.port, ssh.jump, ssh.netns)

    @property
    def place(self) -> str:
        """The host in words. It stays the same if only the way there changes: the port, say."""
        if self.ssh is None:
            return str(self.netns or "this machine")
        inside = "" if self.ssh.netns is None else f" from {self.ssh.netns}"
        return f"{self.ssh.address.lower()}{inside}"

    @property
    def own_kernel(self) -> bool:
        """Whether the host has its own kernel: nodes of private cells share their machine's."""
        return self.netns is None

    @property
    def node(self) -> NetnsSection | None:
        """The node of a private cell that is the host or on the way to it; otherwise None."""
        return self.netns if self.ssh is None else self.ssh.netns


#: The shortest ``after``; a host may take a quarter of it to answer.
_SHORTEST_S = 20.0


class RestoreSection(Section):
    """How each host restores itself.

    ``directory``: where the host keeps what is needed for that; ``after``: the time in seconds
    without contact with fstune after which it does so.
    """

    directory: HostPath = "/var/lib/fstune-restore"
    after: Duration = 1800.0

    @field_validator("after")
    @classmethod
    def _longer_than_connecting(cls, after: float) -> float:
        if after < _SHORTEST_S:
            raise ValueError(
                f"write at least {_SHORTEST_S:g}s: a connection that breaks must be made again "
                "before the host restores itself"
            )
        return after


class ReachedHosts(Protocol):
    """What a testbed file says of all its hosts."""

    @property
    def reached(self) -> Sequence[ReachSection]:
        """How each host is reached: the server, then the clients."""
        ...

    @property
    def restore(self) -> RestoreSection:
        """How each restores itself."""
        ...


def cells_of(reached: Sequence[ReachSection]) -> list[str]:
    """The private cells on this machine that contain these hosts or are used to reach them."""
    return sorted({reach.node.cell for reach in reached if reach.node is not None})


def identifiers(reached: Sequence[ReachSection]) -> list[str]:
    """Identify these hosts, except for this machine, which may serve several testbeds."""
    nodes = {str(reach.netns) for reach in reached if reach.netns is not None}
    return sorted(nodes | {_host(reach.ssh) for reach in reached if reach.ssh is not None})


def _host(ssh: SshSection) -> str:
    """Identify a host; the same address is a different host in each private cell."""
    return f"host {ssh.address}" + (f" from {ssh.netns}" if ssh.netns else "")


def check_distinct(names: Sequence[str], reached: Sequence[ReachSection]) -> None:
    """Raise ValueError if two hosts have the same name or are the same."""
    if twice := duplicates(names):
        raise ValueError(
            f"two hosts have the name {twice[0]!r}: give each one of its own (the server is called "
            "server unless it has another)"
        )
    hosts = [reach.host for reach in reached]
    for number, host in enumerate(hosts):
        if (first := hosts.index(host)) < number:
            raise ValueError(
                f"{names[first]} and {names[number]} are the same host: the server and each "
                "client need one of their own"
            )
