"""Connections to a real sshd that are lost, cut or closed while commands run."""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.cell import ssh
from deploy.cell.network import client_address
from tests.integration.ssh.conftest import (
    KEEPALIVE_S,
    LONG,
    Hosts,
    appears,
    await_end,
    restart,
)
from tests.waiting import wait_for
from tuner.errors import TransportError
from tuner.hosts.log_in import Patience
from tuner.hosts.ssh import SshConnector

pytestmark = pytest.mark.cell


BOOT_ID = "/proc/sys/kernel/random/boot_id"


def test_a_plain_command_does_not_outlive_its_connection(hosts: Hosts) -> None:
    with hosts.open() as connector, ThreadPoolExecutor(1) as pool:
        running = pool.submit(connector.run, [*LONG, "/tmp/plain", "100"])
        appears(hosts.node, "/tmp/plain")
        restart(hosts)
        with pytest.raises(TransportError):
            running.result(60.0)
        # The next command finds the connection dead before it reaches the host.
        await_end(hosts.node, connector.run(["cat", "/tmp/plain"]).stdout.strip())


def test_closing_wakes_waiting_threads(hosts: Hosts) -> None:
    with ThreadPoolExecutor(1) as pool, hosts.open() as connector:
        running = pool.submit(connector.run, [*LONG, "/tmp/closed", "100"])
        appears(hosts.node, "/tmp/closed")
        connector.close()
        with pytest.raises(TransportError):
            running.result(60.0)
        await_end(hosts.node, hosts.node.check(["cat", "/tmp/closed"]).strip())


def test_a_detached_command_outlives_its_connection_and_runs_once(hosts: Hosts) -> None:
    script = 'echo ran >> "$1"; while [ ! -e "$1.go" ]; do sleep 0.05; done; echo "$2"; exit 5'
    argv = ["sh", "-c", script, "sh", "/tmp/detached", "é"]
    with hosts.open() as connector, ThreadPoolExecutor(1) as pool:
        running = pool.submit(connector.run_detached, argv, run_id="once", timeout_s=100.0)
        for _ in range(2):
            appears(hosts.node, "/tmp/detached")
            ssh.stop(hosts.node)
            time.sleep(0.5)
            ssh.start(hosts.node, hosts.authorized)
            assert hosts.node.run(["pgrep", "--full", "detached"]).status == 0
        hosts.node.check(["touch", "/tmp/detached.go"])
        done = running.result(60.0)
        assert (done.status, done.stdout) == (5, "é\n")
        assert connector.run(["cat", "/tmp/detached"]).stdout == "ran\n"
        assert connector.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == ""


def test_a_restart_of_the_host_is_reported(hosts: Hosts, server: SshConnector) -> None:
    with ThreadPoolExecutor(1) as pool:
        argv = [*LONG, "/tmp/rebooted", "100"]
        running = pool.submit(server.run_detached, argv, run_id="boot", timeout_s=200.0)
        appears(hosts.node, "/tmp/rebooted")
        (hosts.node.shared / "boot_id").write_text("another start of the machine\n")
        hosts.node.check(["mount", "--bind", "/fstune/boot_id", BOOT_ID])
        try:
            with pytest.raises(TransportError, match=r"run boot\): the host was restarted while"):
                running.result(60.0)
        finally:
            hosts.node.check(["umount", BOOT_ID])
            hosts.node.check(["kill", "-KILL", hosts.node.check(["cat", "/tmp/rebooted"]).strip()])


@pytest.fixture
def cut(hosts: Hosts) -> Iterator[Callable[[], None]]:
    """Yield a function that cuts the first client's cable, which is reconnected afterwards."""
    port = ["ip", "link", "set", "port1"]

    def down() -> None:
        hosts.node.check([*port, "down"])

    yield down
    hosts.node.check([*port, "up"])


def test_a_silently_dead_connection_is_noticed(hosts: Hosts, cut: Callable[[], None]) -> None:
    with hosts.open() as connector, ThreadPoolExecutor(2) as pool:
        plain = pool.submit(connector.run, [*LONG, "/tmp/cut", "100"], timeout_s=1000.0)
        appears(hosts.node, "/tmp/cut")
        detached = pool.submit(
            connector.run_detached, [*LONG, "/tmp/kept", "8"], run_id="kept", timeout_s=100.0
        )
        appears(hosts.node, "/tmp/kept")
        cut()
        with pytest.raises(TransportError):
            plain.result(60.0)
        assert not detached.done()
        hosts.node.check(["ip", "link", "set", "port1", "up"])
        assert detached.result(60.0).stdout == "done\n"
        assert connector.run(["true"]).status == 0


def test_a_silently_dead_connection_behind_a_jump_host_is_noticed(hosts: Hosts) -> None:
    jump = dataclasses.replace(hosts.server, address=client_address(2))
    host = dataclasses.replace(hosts.server, address=client_address(1), jump=jump)
    patience = Patience(connect_s=30.0, attempts=1, keepalive_s=KEEPALIVE_S)

    def from_server(address: str, port: int, timeout_s: float) -> socket.socket:
        return ssh.connect_from(hosts.node, address, port, timeout_s)

    first = hosts.cell.clients[0]
    with SshConnector(host, patience, from_server) as connector, ThreadPoolExecutor(1) as pool:
        running = pool.submit(connector.run, [*LONG, "/tmp/behind", "100"], timeout_s=1000.0)
        appears(first, "/tmp/behind")
        hosts.node.check(["ip", "link", "set", "port1", "down"])
        try:
            with pytest.raises(TransportError, match="the connection is dead"):
                running.result(60.0)
        finally:
            hosts.node.check(["ip", "link", "set", "port1", "up"])
    # It may have noticed the loss and exited before the link was restored.
    first.run(["kill", "-KILL", first.check(["cat", "/tmp/behind"]).strip()])


def test_nothing_is_left_in_this_process(hosts: Hosts) -> None:
    before = {thread.name for thread in threading.enumerate()}
    files = len(os.listdir("/proc/self/fd"))
    with hosts.open() as connector:
        for _ in range(20):
            connector.run(["true"])
    wait_for(
        lambda: {thread.name for thread in threading.enumerate()} <= before, "the end of threads"
    )
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= files, "the end of open files")
