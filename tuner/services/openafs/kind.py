"""OpenAFS as a kind of service: its parts, and the testbeds: private cells and hosts.

Modules that are slow to import and only needed for hosts are imported when they are used.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from deploy.cell import CellError, CellSpec
from search_spaces import Form, Space, describe
from tuner.documents import Section
from tuner.errors import ConflictError, SpecError, TestbedError
from tuner.hosts.reach import identifiers
from tuner.measure.workload import load_workload
from tuner.services.kind import (
    Inspection,
    Kind,
    Needs,
    Offer,
    Preview,
    Program,
    Rehearsal,
    TestbedIdentity,
    TestbedType,
    Workers,
    refusal_of,
)
from tuner.services.lasting import LastingTestbed
from tuner.services.openafs.assembly import Requirements, usual_requirements
from tuner.services.openafs.cell import (
    INITIAL_SETTINGS,
    CellTestbed,
    is_up,
    limits_of_new,
    nodes_as_hosts,
)
from tuner.services.openafs.diagnostics import DIAGNOSTICS
from tuner.services.openafs.spaces import SYSCTL, check_network, check_runtime
from tuner.services.openafs.start import CellStart, HostsStart
from tuner.services.openafs.suitable import mistakes_of_workload
from tuner.services.openafs.testbed_file import TestbedFile, read_testbed
from tuner.services.testbed import Testbed
from tuner.text import counted

FILESERVER, CACHE_MANAGER, CLIENT_RUNTIME = "fileserver", "cache_manager", "client_runtime"
HOST_NETWORK = "host_network"


class CellSection(Section):
    """A private cell on this machine, brought up for the campaign unless it is up already.

    The workload runs on all of its ``clients`` at once.
    """

    name: str = "default"
    clients: int = Field(default=1, ge=1)
    link: str | None = None


class CellType(TestbedType[CellSection]):
    """``cell: {}``: a private cell on this machine."""

    key = "cell"
    section = CellSection
    example = "cell: {}"
    workers = Workers.STATE
    title = "a private cell"
    threat = (
        "The campaign was measured on a private cell: servers and clients share one machine, and "
        "volumes and caches lie in its memory. What is faster there may not be so on your disks "
        "and your network."
    )
    several = "private cells are on one machine: what runs in one disturbs the others"
    restore_command = "'fstune cell down' for a private cell"

    def name(self, section: CellSection) -> str | None:
        """See TestbedType.name."""
        return section.name

    def summary(self, section: CellSection) -> str:
        """See TestbedType.summary."""
        link = f", link {section.link}" if section.link else ""
        place = f"private cell {section.name} on one machine"
        return f"{place}, {counted(section.clients, 'client')}{link}"

    def describe(self, section: CellSection) -> str:
        """See TestbedType.describe."""
        return (
            f"private cell {section.name} on this machine: brought up for the campaign unless it "
            "is up already, with the servers and clients inside restarted for each configuration"
        )

    def identity(self, section: CellSection, state_directory: Path) -> TestbedIdentity:
        """See TestbedType.identity."""
        host = socket.gethostname()
        name = f"cell {section.name} in {state_directory.absolute()} on {host}"
        return TestbedIdentity(name, f"cell {section.name}", {"host": host, **section.model_dump()})

    def testbed(
        self, section: CellSection, where: str, needs: Needs, state_directory: Path
    ) -> Testbed:
        """See TestbedType.testbed."""
        _check_programs(needs.spaces, "afsd.fuse")
        try:
            cell = CellSpec(section.name, section.clients, section.link)
        except CellError as problem:
            raise SpecError(f"{where}.{self.key}: {problem}") from problem
        return CellTestbed(state_directory, cell, _requirements(needs))

    def lasting(
        self,
        section: CellSection,
        where: str,
        needs: Needs,
        state_directory: Path,
        *,
        putting_back: bool = False,
    ) -> LastingTestbed:
        """See TestbedType.lasting: its nodes as hosts, which restore themselves.

        The cell must be up: one that was created for a campaign is removed after it.
        """
        from tuner.services.openafs.hosts import HostsTestbed

        _check_programs(needs.spaces, "afsd.fuse")
        if not is_up(state_directory, section.name):
            raise ConflictError(
                f"private cell {section.name} is not up: a cell made for a campaign is removed "
                f"after it; for one that stays: fstune cell up --name {section.name} --clients "
                f"{section.clients}"
            )
        file = nodes_as_hosts(section.name, section.clients)
        requirements = _requirements(needs)
        return HostsTestbed(
            file, state_directory, state_directory, requirements, putting_back=putting_back
        )

    def mistakes(self, section: CellSection, where: str, needs: Needs) -> Sequence[str]:
        """See TestbedType.mistakes: the workload must be able to run in the cell."""
        place = f"{where}.{self.key}.clients"
        return mistakes_of_workload(section.clients, place, "this cell", needs)

    def preview(self, section: CellSection, state_directory: Path) -> Preview | None:
        """See TestbedType.preview: a cell that is not up yet will be on this machine."""
        try:
            if is_up(state_directory, section.name):
                return None
            return Preview(INITIAL_SETTINGS, limits_of_new())
        except (SpecError, TestbedError, OSError, ValueError):
            return None  # will be raised when the testbed is used


class HostsType(TestbedType[str]):
    """``hosts: FILE``: hosts of a testbed file, see ``file``."""

    key = "hosts"
    section = str
    example = "hosts: FILE"
    workers = Workers.HOST
    threat = (
        "Cold reads may have come from the memory of the server, whose page cache was not emptied: "
        "they say little about its disks."
    )
    restore_command = "'fstune testbed restore FILE' for hosts"
    stays = True

    def name(self, section: str) -> str | None:
        """See TestbedType.name."""
        return section

    def summary(self, section: str) -> str:
        """See TestbedType.summary."""
        return f"hosts of the testbed file {Path(section).stem}"

    def describe(self, section: str) -> str:
        """See TestbedType.describe."""
        return f"hosts of {section}"

    def resolve(self, section: str, directory: Path) -> str:
        """See TestbedType.resolve."""
        return str(directory / section)

    def identity(self, section: str, state_directory: Path) -> TestbedIdentity:
        """See TestbedType.identity."""
        file = read_testbed(Path(section))
        # An address that is only reachable from this machine may be another host elsewhere.
        reach = file.server.reach
        machine = socket.gethostname()
        here = f" from {machine}" if reach.ssh is None or reach.node else ""
        # Also, all cells on this machine use the same addresses.
        inside = f" on {reach.node}" if reach.node else ""
        name = f"fileserver {file.server.instance} at {file.server.address}{inside}{here}"
        clients = tuple(sorted(client.reach.place for client in file.clients))
        document = {"server": name, **_document(file)}
        return TestbedIdentity(name, Path(section).stem, document, clients)

    def testbed(self, section: str, where: str, needs: Needs, state_directory: Path) -> Testbed:
        """See TestbedType.testbed."""
        from tuner.services.openafs.hosts import HostsTestbed

        path = Path(section)
        file = read_testbed(path)
        _check_file(needs.spaces, file)
        return HostsTestbed(file, path.parent, state_directory, _requirements(needs))

    def mistakes(self, section: str, where: str, needs: Needs) -> Sequence[str]:
        """See TestbedType.mistakes: the workload must be able to run on the hosts."""
        clients = read_testbed(Path(section)).clients
        return mistakes_of_workload(len(clients), f"{where}.{self.key}", "its file", needs)

    def offer(self, file: Path) -> Offer:
        """See TestbedType.offer."""
        testbed = read_testbed(file)
        return Offer(self.key, testbed.name, 1 + len(testbed.clients))

    def lasting(
        self,
        section: str,
        where: str,
        needs: Needs,
        state_directory: Path,
        *,
        putting_back: bool = False,
    ) -> LastingTestbed:
        """See TestbedType.lasting."""
        from tuner.services.openafs.hosts import HostsTestbed

        path = Path(section)
        file = read_testbed(path)
        _check_file(needs.spaces, file)
        place = (file, path.parent, state_directory, _requirements(needs))
        return HostsTestbed(*place, putting_back=putting_back, lasting=True)

    def hosts(self, section: str) -> Sequence[str]:
        """See TestbedType.hosts."""
        return identifiers(read_testbed(Path(section)).reached)

    def permit(
        self, section: str, where: str, allow: Collection[str], files: Mapping[str, Path]
    ) -> str:
        """See TestbedType.permit: only names of known files are accepted, never paths."""
        if section not in files:
            raise SpecError(f"{where}.{self.key}: there is no such testbed; see /v1/testbeds")
        return str(files[section].absolute())

    def rehearse(self, section: str, needs: Needs, state_directory: Path) -> Rehearsal:
        """See TestbedType.rehearse."""
        from tuner.hosts.connections import Hosts
        from tuner.services.openafs import hosts

        path, requirements = Path(section), _requirements(needs)
        file = read_testbed(path)
        with closing(Hosts(file, path.parent, state_directory)) as connections:
            survey = hosts.look(
                file, connections, requirements, workload_bytes=needs.workload.size_bytes
            )
            if refusal_of(survey.findings):
                return Rehearsal(file.name, survey.findings)
            return hosts.rehearse(file, connections, requirements, needs.workload, survey.findings)

    def inspect(self, file: Path, state_directory: Path, *, dry_run: bool) -> Inspection:
        """See TestbedType.inspect."""
        from tuner.hosts.connections import Hosts
        from tuner.services.openafs import hosts

        testbed = read_testbed(file)
        requirements = usual_requirements(testbed.clients[0].control.program)
        commands: Sequence[tuple[str, tuple[str, ...]]] = ()
        with closing(Hosts(testbed, file.resolve().parent, state_directory)) as connections:
            survey = hosts.look(testbed, connections, requirements)
            if dry_run:
                if refusal_of(survey.findings):  # a client may be down and not answer
                    requirements = replace(requirements, client_runtime=None)
                work = load_workload("mixed-use")
                rehearsal = hosts.rehearse(
                    testbed, connections, requirements, work, survey.findings
                )
                commands = rehearsal.commands
        return Inspection(
            name=testbed.name,
            hosts=(survey.server, *survey.clients),
            heading=f"Fileserver on {survey.server.host}",
            lines=survey.programs.lines(),
            findings=survey.findings,
            commands=commands,
        )

    def restore(self, file: Path, state_directory: Path) -> Iterator[str]:
        """See TestbedType.restore."""
        from tuner.hosts.connections import Hosts
        from tuner.hosts.other_holds import check_no_others
        from tuner.services import restoring

        testbed = read_testbed(file)
        with closing(Hosts(testbed, file.resolve().parent, state_directory)) as connections:
            directory = testbed.restore.directory
            yield from restoring.restore(connections.all, directory, testbed.path)
            check_no_others(connections.all, directory)


def _requirements(needs: Needs) -> Requirements:
    return Requirements(
        needs.spaces.get(FILESERVER),
        needs.spaces[CACHE_MANAGER],
        needs.references,
        needs.spaces.get(CLIENT_RUNTIME),
        needs.spaces.get(HOST_NETWORK),
    )


def _document(file: TestbedFile) -> dict[str, object]:
    """Describe the hosts of a testbed file, without details of how to reach them."""
    return {
        "path": file.path,
        "volumes": list(file.server.volumes),
        "clients": {
            client.name: {
                "control": client.control.model_dump(mode="json"),
                "address": None if client.reach.ssh is None else client.reach.ssh.address,
                # The server may treat another principal differently.
                **({} if client.token is None else {"principal": client.token.principal}),
            }
            for client in file.clients
        },
    }


def _check_file(spaces: Mapping[str, Space], file: TestbedFile) -> None:
    tokens = all(client.token is not None for client in file.clients)
    kernels = any(reach.own_kernel for reach in file.reached)
    _check_programs(spaces, file.clients[0].control.program, tokens=tokens, kernels=kernels)


def _check_programs(
    spaces: Mapping[str, Space], client: str, *, tokens: bool = False, kernels: bool = False
) -> None:
    """Check that the spaces fit the programs of a testbed. Raises SpecError.

    ``client``: its client program; ``tokens``: whether fstune provides tokens for all clients;
    ``kernels``: whether any host has its own kernel.
    """
    programs = {FILESERVER: "dafileserver", CACHE_MANAGER: client}
    for part, space in spaces.items():
        if part == CLIENT_RUNTIME:
            check_runtime(space, client, tokens)
        elif part == HOST_NETWORK:
            check_network(space, own_kernel=kernels)
        elif space.program != programs[part] or space.form is not Form.LIBCMD:
            raise SpecError(
                f"spaces.{part}: {space.name} is not for what this testbed runs "
                f"({programs[part]} of OpenAFS 1.8); it is for {describe.purpose(space)}"
            )


_PROGRAMS = {
    "dafileserver": Program(
        "the command line of dafileserver in its instance of bosserver (shown by 'bos status "
        "SERVER -long')",
        "create the instance again with it, by the commands that 'fstune recommend --format bos' "
        "prints",
        format="bosconfig",
        lead="parm",
    ),
    "afsd": Program(
        "the options of afsd on every client: OPTIONS in /etc/openafs/afs.conf, or AFSD_ARGS in "
        "/etc/sysconfig/openafs",
        "systemctl restart openafs-client, with nothing in use below /afs",
        format="afs.conf",
    ),
    "fs": Program(
        "fs commands, as root on every client",
        "they take effect at once and last until the client is restarted; for encryption, every "
        "user also needs 'aklog -force', since existing connections keep their encryption",
    ),
    "sysctl": SYSCTL,
    "afsd.fuse": Program(
        "the command line of afsd.fuse on every client",
        "unmount /afs and start afsd.fuse with them",
        "The client is afsd.fuse, a separate program: the client in the kernel has other costs, "
        "and its settings may have other effects.",
        "openafs-client.conf",
    ),
}

OPENAFS = Kind(
    "openafs",
    (HOST_NETWORK, FILESERVER, CACHE_MANAGER, CLIENT_RUNTIME),
    frozenset({CACHE_MANAGER}),
    (CellType(), HostsType()),
    DIAGNOSTICS,
    (CellStart(), HostsStart()),
    _PROGRAMS,
)
