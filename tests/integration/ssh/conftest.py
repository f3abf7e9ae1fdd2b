"""Hosts for SSH: sshd in the nodes of a private cell, which the files of this folder share."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.cell import Cell, Cells, CellSpec, Node, ssh
from deploy.cell.network import SERVER_ADDRESS, client_address
from tests.waiting import wait_for
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.ssh import SshConnector

#: A dead connection is abandoned after three times this.
KEEPALIVE_S = 3.0
#: Timeouts of commands to be terminated; the first that lets the command start is used.
LIMITS_S = (1.0, 8.0, 60.0)
#: Writes its process id to a file, atomically, and then takes long.
LONG = ["sh", "-c", 'echo $$ > "$1.new"; mv "$1.new" "$1"; sleep "$2"; echo done', "sh"]


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The nodes of a cell as hosts, reached from the first client."""

    cell: Cell
    keys: Path
    server: SshHost

    def open(self, host: SshHost | None = None, **changes: object) -> SshConnector:
        target = dataclasses.replace(host or self.server, **changes)  # type: ignore[arg-type]
        patience = Patience(connect_s=30.0, attempts=2, keepalive_s=KEEPALIVE_S)
        return SshConnector(target, patience, self.connect)

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        return ssh.connect_from(self.cell.clients[0], address, port, timeout_s)

    @property
    def node(self) -> Node:
        return self.cell.server

    @property
    def authorized(self) -> str:
        return (self.keys / "user.pub").read_text()

    def known_hosts_file(self, name: str, *lines: str) -> Path:
        path = self.keys / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path


def make_key(path: Path, passphrase: str = "") -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def fingerprint(line: str, scratch: Path) -> str:
    """The fingerprint of a public key according to ssh-keygen."""
    path = scratch / "asked.pub"
    path.write_text(f"{line}\n")
    command = ["ssh-keygen", "-l", "-f", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return output.split()[1]


@pytest.fixture(scope="package")
def hosts(cells: Cells, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    keys = tmp_path_factory.mktemp("keys")
    user = make_key(keys / "user")
    cells.down("ssh")
    cell = cells.up(CellSpec("ssh", clients=2, ssh=True))
    try:
        lines = []
        for address, node in zip(
            (SERVER_ADDRESS, client_address(1), client_address(2)), cell.nodes, strict=True
        ):
            public = ssh.start(node, (keys / "user.pub").read_text())
            lines.append(f"{address} {public}")
        known_hosts = keys / "known_hosts"
        known_hosts.write_text("".join(f"{line}\n" for line in lines))
        yield Hosts(
            cell, keys, SshHost(SERVER_ADDRESS, key_file=user, agent=False, known_hosts=known_hosts)
        )
    finally:
        cells.down("ssh")


@pytest.fixture(autouse=True)
def no_traces(hosts: Hosts) -> None:
    """Remove the files in /tmp by which commands of earlier tests showed that they ran."""
    hosts.node.check(["find", "/tmp", "-mindepth", "1", "-delete"])


@pytest.fixture(scope="module")
def server(hosts: Hosts) -> Iterator[SshConnector]:
    with hosts.open() as connector:
        yield connector


def appears(node: Node, path: str) -> None:
    wait_for(lambda: node.run(["test", "-e", path]).status == 0, path)


def await_end(node: Node, pid: str) -> None:
    wait_for(lambda: node.run(["test", "-e", f"/proc/{pid}"]).status != 0, f"the end of {pid}")


def restart(hosts: Hosts) -> str:
    ssh.stop(hosts.node)
    return ssh.start(hosts.node, hosts.authorized)
