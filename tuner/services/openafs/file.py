"""Testbed files: which hosts a campaign may use, how each is reached, and what must not be touched.

Defines the keys of the file and their defaults. A testbed file refers to real machines in use, so
every value that becomes a command argument later is validated strictly.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tuner.documents import Duration, Name, Section, read_document
from tuner.services.hours import HoursSection
from tuner.services.openafs.server_log import USUAL_LOGS

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Neither a leading dash, which would be an option, nor a colon, which starts a port.
_HOST = re.compile(rf"(?!.{{254}}){_LABEL}(\.{_LABEL})*")
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\$?")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
#: Neither quotes nor a leading dash: it is a word of a command line.
_PRINCIPAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}(@[A-Za-z0-9.-]{1,127})?")
# No spaces or quotes: such paths also occur in lists of the kernel and on command lines.
_PATH = re.compile(r"(/[A-Za-z0-9_.:+@%=~-]+)+")


def _matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
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


Host = Annotated[str, _matching(_HOST, "a host name or an IPv4 address")]
User = Annotated[str, _matching(_USER, "a user name")]
Word = Annotated[str, _matching(_WORD, "a name of letters, digits, dots, hyphens and underscores")]
Principal = Annotated[str, _matching(_PRINCIPAL, "a Kerberos principal such as bench or a/b@REALM")]
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


class ServerSection(Section):
    """The fileserver, which is managed by bosserver.

    ``address``: the address that clients use. ``volumes``: those of the campaign.
    ``other_volumes``: further volumes that do not prevent a campaign, although every restart
    interrupts them.
    """

    name: Word = "server"
    reach: ReachSection
    address: Address
    instance: Word = "dafs"
    log: HostPath = USUAL_LOGS[0]
    volumes: tuple[Word, ...] = Field(min_length=1)
    other_volumes: tuple[Word, ...] = ()


class FuseSection(Section):
    """afsd.fuse, which must be mounted already and is restored to that state."""

    mount: HostPath = "/afs"
    cache: HostPath = "/var/cache/openafs"


class UnitSection(Section):
    """The kernel client; its systemd unit reads the options from ``variable`` in ``file``.

    The defaults are those of Debian.
    """

    unit: Word = "openafs-client"
    file: HostPath = "/etc/openafs/afs.conf"
    variable: Word = "OPTIONS"
    mount: HostPath = "/afs"
    cache: HostPath = "/var/cache/openafs"


class SysconfigSection(UnitSection):
    """The same with the defaults of Red Hat."""

    file: HostPath = "/etc/sysconfig/openafs"
    variable: Word = "AFSD_ARGS"
    cache: HostPath = "/usr/vice/cache"


class ControlSection(Section):
    """How the client program is started and stopped: exactly one way."""

    fuse: FuseSection | None = None
    systemd: UnitSection | None = None
    sysconfig: SysconfigSection | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ControlSection:
        if sum(way is not None for way in (self.fuse, self.systemd, self.sysconfig)) != 1:
            raise ValueError("name exactly one way: fuse, systemd or sysconfig")
        return self

    @property
    def way(self) -> FuseSection | UnitSection:
        """The section that is given."""
        section = self.fuse or self.systemd or self.sysconfig
        assert section is not None
        return section

    @property
    def program(self) -> str:
        """The client program."""
        return "afsd" if self.fuse is None else "afsd.fuse"


class TokenSection(Section):
    """The token that a client uses, obtained with a keytab on the client host.

    ``lifetime``: of the requested ticket, in seconds; ``cell`` and ``realm``: of the token, by
    default those of the host.
    """

    keytab: HostPath
    principal: Principal
    lifetime: Annotated[Duration, Field(ge=60.0)] | None = None
    cell: Host | None = None
    realm: Host | None = None


class ClientSection(Section):
    """A client host. ``token``: the token to obtain for it; None to obtain none."""

    name: Word
    reach: ReachSection
    control: ControlSection
    token: TokenSection | None = None

    @model_validator(mode="after")
    def _takes_tokens(self) -> ClientSection:
        if self.token is not None and self.control.fuse is not None:
            raise ValueError("afsd.fuse takes no tokens: only the kernel's client does")
        return self


class RestoreSection(Section):
    """How each host restores itself.

    ``directory``: where the host keeps what is needed for that; ``after``: the time in seconds
    without contact with fstune after which it does so.
    """

    directory: HostPath = "/var/lib/fstune-restore"
    after: Duration = 1800.0


class TestbedFile(Section):
    """A testbed of hosts.

    ``path``: where the clients see the volume; the workload runs there. ``other_clients``:
    addresses of further clients that may use the server during a campaign.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    name: Name
    path: HostPath
    server: ServerSection
    clients: tuple[ClientSection, ...] = Field(min_length=1, max_length=64)
    other_clients: tuple[Address, ...] = ()
    hours: HoursSection | None = None
    restore: RestoreSection = RestoreSection()

    @model_validator(mode="after")
    def _names_differ(self) -> TestbedFile:
        names = [self.server.name, *(client.name for client in self.clients)]
        if len(set(names)) < len(names):
            raise ValueError("every host needs a name of its own")
        hosts = [reach.host for reach in self.reached]
        for number, host in enumerate(hosts):
            if (first := hosts.index(host)) < number:
                raise ValueError(
                    f"{names[first]} and {names[number]} are the same host: the server and each "
                    "client need one of their own"
                )
        if len({client.control.program for client in self.clients}) > 1:
            raise ValueError("all clients must run the same program: settings differ between them")
        return self

    @property
    def reached(self) -> tuple[ReachSection, ...]:
        """How each host is reached: the server, then the clients."""
        return (self.server.reach, *(client.reach for client in self.clients))

    @property
    def cells(self) -> list[str]:
        """The private cells on this machine that contain its hosts or are used to reach them."""
        return sorted({reach.node.cell for reach in self.reached if reach.node is not None})


def read_testbed(path: Path) -> TestbedFile:
    """Read and validate a testbed file. Raises SpecError: file, key and reason, in one line.

    Relative paths of keys and known_hosts in it are relative to the directory of the file.
    """
    return read_document(path, TestbedFile, "a testbed file")
