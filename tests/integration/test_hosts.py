"""What hosts over SSH do for a workload: interactive commands, and lost connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.cell import Cells, Node, ssh
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS, client_address
from tests.acceptance.faults import drop_connections, standing_in
from tests.acceptance.lab import CELL, RESTORE, Lab, bring_up
from tests.acceptance.processes import processes
from tests.unit.services.openafs.test_testbed_file import HOSTILE
from tests.waiting import wait_for
from tuner.errors import ConfigurationError, TransportError
from tuner.hosts.log_in import SshHost
from tuner.hosts.ssh import SshConnector
from tuner.services.openafs.fuse import FuseClient, FusePlace

pytestmark = pytest.mark.cell

#: Prints that it is ready, reads a word, and answers with it.
ASKS = ["sh", "-c", 'echo "ready $1" >&2; read -r word; echo "got $word"; exit 3', "sh", "a 'b'"]


@pytest.fixture(scope="module")
def lab(cells: Cells, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    cells.down(CELL)
    try:
        yield bring_up(cells, tmp_path_factory.mktemp("lab"))
    finally:
        cells.down(CELL)


@contextmanager
def connected(lab: Lab, address: str) -> Iterator[SshConnector]:
    known_hosts, key = lab.directory / "known_hosts", lab.directory / "user"
    host = SshHost(address, ssh.OPERATOR, 22, key, False, known_hosts, sudo=True)

    def opener(address: str, port: int, timeout_s: float) -> socket.socket:
        return ssh.connect_from(lab.desk, address, port, timeout_s)

    with SshConnector(host, opener=opener) as connector:
        yield connector


@pytest.fixture
def server(lab: Lab) -> Iterator[SshConnector]:
    with connected(lab, SERVER_ADDRESS) as connector:
        yield connector


def asking(node: Node) -> bool:
    return any(words == ASKS for words in processes(node))


def test_a_conversation_with_a_command(server: SshConnector) -> None:
    talk = server.converse(ASKS)
    assert talk.listen() == "ready a 'b'"
    talk.say("go $(on)")
    assert talk.listen() is None
    done = talk.end()
    assert (done.status, done.stdout, done.stderr) == (3, "got go $(on)\n", "ready a 'b'\n")
    talk.kill()
    assert server.run(["id", "--user"]).stdout == "0\n"


def test_hostile_options_reach_a_client_program_as_data(lab: Lab) -> None:
    """They pass from a configuration to the program's arguments through SSH, sudo and a script."""
    words = [*(word for word in HOSTILE if "\0" not in word), "$(touch /fstune/met)"]
    node = lab.clients[0]
    place = FusePlace("/afs", "/var/cache/openafs", VOLUME_PATH, f"{RESTORE}/restore")
    records = '#!/bin/sh\nprintf "%s\\0" "$@" > /fstune/given\nexit 1\n'
    with connected(lab, client_address(1)) as connector:
        client = FuseClient.attach(connector, place)
        client._record()  # so that it is restored with its own program
        client.program = "/usr/local/bin/afsd.fuse"
        with (
            standing_in(node, "afsd.fuse", records),
            pytest.raises(ConfigurationError, match="does not start"),
        ):
            client.start(words)
        client.restore()
    arguments = (node.shared / "given").read_text(errors="surrogateescape").split("\0")[:-1]
    assert arguments == words
    assert not (node.shared / "met").exists()
    assert lab.programs() == lab.original


def test_an_abandoned_conversation_ends_the_command(lab: Lab, server: SshConnector) -> None:
    talk = server.converse(ASKS)
    assert talk.listen() is not None
    assert asking(lab.server)
    talk.kill()
    wait_for(lambda: not asking(lab.server), "its end")
    assert talk.listen() is None


def test_a_lost_connection_ends_the_conversation_and_the_command(
    lab: Lab, server: SshConnector
) -> None:
    talk = server.converse(ASKS)
    assert talk.listen() is not None
    drop_connections(lab.server)
    assert talk.listen() is None
    with pytest.raises(TransportError, match=r"10\.77\.0\.1: sh -c: ") as lost:
        talk.end()
    assert str(lost.value.details["command"]).startswith("sh -c ")
    wait_for(lambda: not asking(lab.server), "its end")
    assert server.run(["true"]).status == 0
