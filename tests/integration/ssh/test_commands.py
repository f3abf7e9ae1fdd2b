"""Commands on real hosts over SSH: input, output, status, time limits and interruptions."""

from __future__ import annotations

import functools
import itertools
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import paramiko
import pytest

from deploy.cell.network import SERVER_ADDRESS
from tests.integration.ssh.conftest import (
    LIMITS_S,
    LONG,
    Hosts,
    appears,
    await_end,
)
from tuner.hosts import link
from tuner.hosts.connector import CommandFailed, CommandTimeout, Connector, OutputTooLarge
from tuner.hosts.node import NodeConnector
from tuner.hosts.ssh import SshConnector
from tuner.stop_signals import stop_signals

pytestmark = pytest.mark.cell


def test_commands_keep_input_outputs_and_status_apart(server: SshConnector) -> None:
    content = bytes(range(256)) * 2000
    done = server.run(["sh", "-c", "sha256sum; echo no >&2; exit 3"], input=content)
    assert done.status == 3
    assert done.stderr == "no\n"
    assert (
        done.stdout.split()[0]
        == subprocess.run(["sha256sum"], input=content, capture_output=True, check=True)
        .stdout.decode()
        .split()[0]
    )
    assert server.run(["sh", "-c", "kill -KILL $$"]).status == -9
    assert server.run(["/nonexistent/program"]).status == 127
    assert server.run(["tty"]).stdout == "not a tty\n"
    assert "LANG=C\n" in server.run(["env"]).stdout
    assert server.run(["hostname"]).stdout == "server\n"


def test_no_argument_is_interpreted_by_a_shell(server: SshConnector) -> None:
    words = ["", "a b", "it's", '"', "$(id)", "`id`", "$HOME", "a\nb", "-n", "--", "*", "\\", "é"]
    done = server.run(["printf", "%s|", *words])
    assert done.stdout.split("|")[:-1] == words
    talk = server.converse(["printf", "%s|", *words])
    assert talk.listen() is None
    assert talk.end().stdout == done.stdout
    with pytest.raises(ValueError, match="null character"):
        server.run(["echo", "a\0b"])


@pytest.mark.parametrize("kind", ["ssh", "node"])
def test_files_are_transferred_unchanged(kind: str, hosts: Hosts, server: SshConnector) -> None:
    host: Connector = server if kind == "ssh" else NodeConnector(hosts.node)
    content = bytes(range(256)) * 5000
    host.put("/tmp/a 'b' $(c)", content, mode=0o640)
    assert host.get("/tmp/a 'b' $(c)") == content
    assert host.ask(["stat", "--format=%a", "/tmp/a 'b' $(c)"]).stdout == "640\n"
    with pytest.raises(CommandFailed, match="No such file"):
        host.get("/tmp/missing")
    with pytest.raises(CommandFailed):
        host.put("/tmp/missing/file", b"")


def test_one_connection_serves_many_commands_and_threads(
    hosts: Hosts, server: SshConnector
) -> None:
    def peer(number: int) -> str:
        word = f"{number}-" + "x" * 100_000
        done = server.run(["sh", "-c", "cat; sleep 0.2; echo $SSH_CONNECTION >&2"], input=b"in")
        assert server.run(["echo", word]).stdout == f"{word}\n"
        assert done.stdout == "in"
        return done.stderr

    with ThreadPoolExecutor(20) as pool:
        peers = set(pool.map(peer, range(20)))
    assert len(peers) == 1


def test_a_timeout_ends_the_command_and_its_children(hosts: Hosts, server: SshConnector) -> None:
    script = 'sleep 100 & echo "$! $$" > /tmp/timed; wait'
    for timeout_s in LIMITS_S:
        pattern = rf"10\.77\.0\.1: sh -c: not finished after {timeout_s:.0f} s$"
        with pytest.raises(CommandTimeout, match=pattern):
            server.run(["sh", "-c", script], timeout_s=timeout_s)
        if pids := server.run(["cat", "/tmp/timed"]).stdout.split():
            break
    assert len(pids) == 2
    for pid in pids:
        await_end(hosts.node, pid)


def test_too_much_output(server: SshConnector) -> None:
    assert len(server.run(["head", "-c", str(16 << 20), "/dev/zero"]).stdout) == 16 << 20
    with pytest.raises(OutputTooLarge, match="head -c: it wrote more than 16 MiB"):
        server.run(["head", "-c", str((16 << 20) + 1), "/dev/zero"])
    with pytest.raises(OutputTooLarge):
        server.run(["cat", "/dev/zero"])


@pytest.mark.parametrize("kind", ["plain", "detached"])
def test_a_command_that_is_interrupted_is_ended(
    kind: str, hosts: Hosts, server: SshConnector
) -> None:
    argv = [*LONG, f"/tmp/interrupted-{kind}", "100"]

    def interrupt() -> None:
        appears(hosts.node, argv[-2])
        os.kill(os.getpid(), signal.SIGINT)

    run = functools.partial(server.run_detached, run_id="interrupted")
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        (server.run if kind == "plain" else run)(argv, timeout_s=90.0)
    await_end(hosts.node, server.run(["cat", argv[-2]]).stdout.strip())
    assert server.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == ""


class Striking:
    """A paramiko lock that sends a stop signal when the main thread takes it the ``at``-th time.

    ``struck`` says whether it has.
    """

    def __init__(self, lock: Any, at: int) -> None:
        self._lock = lock
        self._left = at
        self.struck = False

    def acquire(self) -> None:
        self._lock.acquire()
        if threading.current_thread() is not threading.main_thread() or self.struck:
            return
        self._left -= 1
        if not self._left:
            self.struck = True
            os.kill(os.getpid(), signal.SIGINT)

    def release(self) -> None:
        self._lock.release()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("keeps", "least"),
    [
        (True, 3),  # a heartbeat is requested, then a command
        (False, 5),  # a session is opened, a command is requested, sent and released
    ],
)
def test_a_stop_signal_leaves_a_connection_that_works(
    keeps: bool, least: int, server: SshConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it strikes in paramiko, restoring the host uses the same connection."""
    if not keeps:
        monkeypatch.setattr(link, "_MOST_IDLE", 0)
        server._link._close_idle()
    server.run(["true"])
    transport = server._link._alive()
    assert transport is not None
    for at in itertools.count(1):
        with monkeypatch.context() as patched, stop_signals():
            lock = Striking(transport.clear_to_send_lock, at)
            patched.setattr(transport, "clear_to_send_lock", lock)
            try:
                server.run(["true"])
            except KeyboardInterrupt:
                assert lock.struck
            else:
                assert not lock.struck
        assert server.run(["true"]).status == 0
        assert server._link._alive() is transport
        if not lock.struck:
            break
    assert at >= least


@pytest.mark.parametrize("keeps", [True, False])
def test_a_stop_signal_is_not_hidden_by_a_lost_connection(
    keeps: bool, server: SshConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(channel: paramiko.Channel) -> None:
        raise EOFError

    def stop() -> None:
        with server._link.session() if keeps else server._link.channel():
            patched.setattr(paramiko.Channel, "close", lose)
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        stop()
    assert server.run(["true"]).status == 0


def test_commands_share_what_runs_them(server: SshConnector) -> None:
    """Starting python3 for each would be most of the time of a short command."""
    asks = ["sh", "-c", "echo $PPID"]
    assert len({server.run(asks).stdout for _ in range(5)}) == 1
    with pytest.raises(CommandTimeout):
        server.run(["sleep", "100"], timeout_s=0.1)
    assert server.run(["true"]).status == 0


def test_what_runs_commands_may_be_killed_between_them(hosts: Hosts) -> None:
    with hosts.open() as connector:
        first = connector.run(["sh", "-c", "echo $PPID"]).stdout.strip()
        hosts.node.check(["kill", "-KILL", first])
        await_end(hosts.node, first)
        assert connector.run(["echo", "here"]).stdout == "here\n"


def test_the_only_session_of_a_host_is_available_when_it_is_needed(hosts: Hosts) -> None:
    """No idle session is kept on a host that has none to spare."""
    options = ["-o", "MaxSessions=1", "-o", "Port=2222", "-o", "PidFile=/run/sshd-2222.pid"]
    hosts.node.check(["/usr/sbin/sshd", "-f", "/fstune/ssh/sshd_config", *options])
    host_key = (hosts.keys / "known_hosts").read_text().splitlines()[0].partition(" ")[2]
    known_hosts = hosts.known_hosts_file("narrow", f"[{SERVER_ADDRESS}]:2222 {host_key}")
    try:
        with hosts.open(port=2222, known_hosts=known_hosts) as connector:
            assert connector.run(["echo", "here"]).stdout == "here\n"
            conversation = connector.converse(["cat"])
            conversation.kill()
            assert connector.run(["echo", "again"]).stdout == "again\n"
    finally:
        hosts.node.check(["sh", "-c", "kill $(cat /run/sshd-2222.pid)"])


def test_a_detached_command_ends_when_its_time_is_up(hosts: Hosts, server: SshConnector) -> None:
    for timeout_s in LIMITS_S:
        with pytest.raises(CommandTimeout, match=rf"sh -c: not finished after {timeout_s:.0f} s$"):
            server.run_detached([*LONG, "/tmp/late", "100"], run_id="late", timeout_s=timeout_s)
        if pid := server.run(["cat", "/tmp/late"]).stdout.strip():
            break
    await_end(hosts.node, pid)
    assert server.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == ""
