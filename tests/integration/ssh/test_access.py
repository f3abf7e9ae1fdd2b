"""Host keys, private keys, accounts, sudo and jump hosts, with a real sshd."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
from pathlib import Path

import pytest

from deploy.cell import ssh
from deploy.cell.network import SERVER_ADDRESS, client_address
from tests.integration.ssh.conftest import (
    LIMITS_S,
    LONG,
    Hosts,
    await_end,
    fingerprint,
    make_key,
)
from tests.waiting import wait_for
from tuner.errors import AccessError, TransportError
from tuner.hosts.connector import CommandFailed, CommandTimeout
from tuner.hosts.log_in import Patience
from tuner.hosts.ssh import SshConnector

pytestmark = pytest.mark.cell


def test_unknown_host_key(hosts: Hosts) -> None:
    public = (hosts.node.shared / "ssh" / "host_key.pub").read_text()
    for path in (hosts.known_hosts_file("empty"), hosts.keys / "missing"):
        with hosts.open(known_hosts=path) as stranger, pytest.raises(AccessError) as caught:
            stranger.run(["true"])
        message = str(caught.value)
        assert fingerprint(public, hosts.keys) in message
        assert f"not in {path}" in message
        assert f"ssh-keyscan -t ed25519 {SERVER_ADDRESS} >> {path}" in message
    assert (hosts.keys / "empty").read_text() == ""
    assert not (hosts.keys / "missing").exists()


def test_changed_and_revoked_host_keys(hosts: Hosts) -> None:
    public = (hosts.node.shared / "ssh" / "host_key.pub").read_text().strip()
    other = (make_key(hosts.keys / "other_host").with_suffix(".pub")).read_text().strip()
    path = hosts.known_hosts_file("changed", f"{SERVER_ADDRESS} {other}")
    with hosts.open(known_hosts=path) as changed, pytest.raises(AccessError) as caught:
        changed.run(["true"])
    message = str(caught.value)
    assert fingerprint(public, hosts.keys) in message
    assert fingerprint(other, hosts.keys) in message
    assert f"ssh-keygen -R '{SERVER_ADDRESS}' -f {path}" in message
    path = hosts.known_hosts_file("revoked", f"{SERVER_ADDRESS} {public}", f"@revoked * {public}")
    with hosts.open(known_hosts=path) as revoked, pytest.raises(AccessError, match="is not in"):
        revoked.run(["true"])


def test_hashed_known_hosts(hosts: Hosts) -> None:
    path = hosts.known_hosts_file("hashed", *hosts.server.known_hosts.read_text().splitlines())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert SERVER_ADDRESS not in path.read_text()
    with hosts.open(known_hosts=path) as connector:
        assert connector.run(["true"]).status == 0


def test_keys_that_are_not_accepted(hosts: Hosts, tmp_path: Path) -> None:
    wrong = make_key(tmp_path / "wrong")
    locked = make_key(tmp_path / "locked", "a passphrase")
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("not a key")
    for path, message in (
        (wrong, f"accepts no key .tried the key {wrong}"),
        (locked, "private key is encrypted"),
        (rubbish, "contains no readable private key"),
        (tmp_path / "missing", "No such file"),
    ):
        with hosts.open(key_file=path) as connector, pytest.raises(AccessError, match=message):
            connector.run(["true"])


def test_a_key_from_an_agent(hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: os.path.exists(place), "the agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", place)
        monkeypatch.setenv("HOME", str(tmp_path))
        with hosts.open(key_file=None, agent=True) as connector:
            with pytest.raises(AccessError, match="accepts no key"):
                connector.run(["true"])
            add = ["ssh-add", "-q", str(hosts.keys / "user")]
            subprocess.run(add, check=True, capture_output=True)
            assert connector.run(["true"]).status == 0
    finally:
        agent.kill()
        agent.wait()


def test_a_port_where_nobody_listens(hosts: Hosts) -> None:
    with (
        hosts.open(port=2222) as connector,
        pytest.raises(TransportError, match=r"root@10\.77\.0\.1:2222: Connection refused"),
    ):
        connector.run(["true"])


def test_only_temporary_failures_are_retried(hosts: Hosts) -> None:
    addresses: list[str] = []

    def late(address: str, port: int, timeout_s: float) -> socket.socket:
        addresses.append(address)
        if len(addresses) < 3:
            raise ConnectionRefusedError(111, "Connection refused")
        return hosts.connect(address, port, timeout_s)

    patience = Patience(attempts=3)
    with SshConnector(hosts.server, patience, late) as connector:
        assert connector.run(["true"]).status == 0
    assert len(addresses) == 3
    stranger = dataclasses.replace(hosts.server, known_hosts=hosts.known_hosts_file("nobody"))
    with SshConnector(stranger, patience, late) as connector, pytest.raises(AccessError):
        connector.run(["true"])
    assert len(addresses) == 4


def test_other_accounts_and_sudo(hosts: Hosts) -> None:
    with hosts.open(user=ssh.OPERATOR) as plain:
        assert plain.run(["id", "--user", "--name"]).stdout == "operator\n"
        with pytest.raises(CommandFailed, match="Permission denied"):
            plain.put("/etc/openafs/file", b"")
    with hosts.open(user=ssh.OPERATOR, sudo=True) as root:
        assert root.run(["id", "--user"]).stdout == "0\n"
        root.put("/etc/openafs/server/a b", b"\0x", mode=0o600)
        assert root.get("/etc/openafs/server/a b") == b"\0x"
        root.run(["rm", "/etc/openafs/server/a b"])
        for timeout_s in LIMITS_S:
            with pytest.raises(CommandTimeout):
                root.run([*LONG, "/tmp/sudo", "100"], timeout_s=timeout_s)
            if pid := root.run(["cat", "/tmp/sudo"]).stdout.strip():
                break
        await_end(hosts.node, pid)
        done = root.run_detached(["id", "--user"], run_id="by-sudo", timeout_s=30.0)
        assert done.stdout == "0\n"
    with (
        hosts.open(user=ssh.VISITOR, sudo=True) as denied,
        pytest.raises(AccessError, match=r"sudo refuses: .*visitor ALL=\(ALL\) NOPASSWD"),
    ):
        denied.run(["id"])


def test_an_account_without_a_shell(hosts: Hosts) -> None:
    with (
        hosts.open(user="nobody") as connector,
        pytest.raises(AccessError, match=r"cannot run commands .*login shell"),
    ):
        connector.run(["true"])


def test_through_a_jump_host(hosts: Hosts) -> None:
    jump = dataclasses.replace(hosts.server, address=client_address(2), user=ssh.VISITOR)
    with hosts.open(jump=jump) as connector:
        variables = connector.run(["printenv", "SSH_CONNECTION"]).stdout
        assert variables.split()[0] == client_address(2)
        assert connector.run_detached(["hostname"], run_id="jumped").stdout == "server\n"
    untrusted = dataclasses.replace(jump, known_hosts=hosts.known_hosts_file("none"))
    with (
        hosts.open(jump=untrusted) as connector,
        pytest.raises(AccessError, match=r"visitor@10\.77\.0\.12: its host key is not in"),
    ):
        connector.run(["true"])
    with (
        hosts.open(jump=jump, known_hosts=hosts.known_hosts_file("none")) as connector,
        pytest.raises(AccessError, match=r"root@10\.77\.0\.1: its host key is not in"),
    ):
        connector.run(["true"])
    with (
        hosts.open(jump=jump, port=2222) as connector,
        pytest.raises(TransportError, match=r"root@10\.77\.0\.1:2222: no channel"),
    ):
        connector.run(["true"])


def test_only_root_reaches_the_setuid_programs(hosts: Hosts) -> None:
    tree = hosts.cell.server.directory.parents[2] / "packages" / "root-only"
    assert tree.stat().st_mode & 0o777 == 0o700
