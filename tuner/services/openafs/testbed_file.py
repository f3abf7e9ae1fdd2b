"""Testbed files: which hosts a campaign may use, how each is reached, and what must not be touched.

Defines the keys of the file and their defaults, except for those of ``tuner.hosts.reach``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from tuner.documents import Duration, Name, Section, read_document
from tuner.hosts.reach import (
    Address,
    Host,
    HostPath,
    ReachSection,
    RestoreSection,
    Word,
    check_distinct,
    matching,
)
from tuner.services.hours import HoursSection
from tuner.services.openafs.server_log import USUAL_LOGS

#: Neither quotes nor a leading dash: it is a word of a command line.
_PRINCIPAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}(@[A-Za-z0-9.-]{1,127})?")

Principal = Annotated[str, matching(_PRINCIPAL, "a Kerberos principal such as bench or a/b@REALM")]


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
            raise ValueError("afsd.fuse takes no tokens: only the kernel client does")
        return self


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
        check_distinct(names, self.reached)
        if len({client.control.program for client in self.clients}) > 1:
            raise ValueError("all clients must run the same program: settings differ between them")
        return self

    @property
    def reached(self) -> tuple[ReachSection, ...]:
        """How each host is reached: the server, then the clients."""
        return (self.server.reach, *(client.reach for client in self.clients))


def read_testbed(path: Path) -> TestbedFile:
    """Read and validate a testbed file. Raises SpecError: file, key and reason, in one line.

    Relative paths of keys and known_hosts in it are relative to the directory of the file.
    """
    return read_document(path, TestbedFile, "a testbed file")
