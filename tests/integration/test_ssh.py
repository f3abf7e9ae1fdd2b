"""Commands by SSH on real hosts: sshd in the nodes of a private cell, lost and cut connections."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deploy.cell import Cell, Cells, CellSpec, Node, ssh
from deploy.cell.network import SERVER_ADDRESS, client_address
from tests.integration.conftest import wait_for
from tuner.campaign.stopping import stop_signals
from tuner.errors import TransportError
from tuner.hosts import link
from tuner.hosts.connector import CommandFailed, CommandTimeout, Connector, OutputTooLarge
from tuner.hosts.log_in import AccessError, Patience, SshHost
from tuner.hosts.node import NodeConnector
from tuner.hosts.ssh import SshConnector

pytestmark = pytest.mark.cell

BOOT_ID = "/proc/sys/kernel/random/boot_id"
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


@pytest.fixture(scope="module")
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


def test_a_plain_command_does_not_outlive_its_connection(hosts: Hosts) -> None:
    with hosts.open() as connector, ThreadPoolExecutor(1) as pool:
        running = pool.submit(connector.run, [*LONG, "/tmp/plain", "100"])
        appears(hosts.node, "/tmp/plain")
        restart(hosts)
        with pytest.raises(TransportError):
            running.result(60.0)
        # The next command finds the connection dead before it reaches the host.
        await_end(hosts.node, connector.run(["cat", "/tmp/plain"]).stdout.strip())


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


def test_commands_share_what_runs_them(server: SshConnector) -> None:
    """Starting python3 for each would be most of the time of a short command."""
    asks = ["sh", "-c", "cut -d ' ' -f 4 /proc/$PPID/stat"]
    assert len({server.run(asks).stdout for _ in range(5)}) == 1
    with pytest.raises(CommandTimeout):
        server.run(["sleep", "100"], timeout_s=0.1)
    assert server.run(["true"]).status == 0


def test_what_runs_commands_may_be_killed_between_them(hosts: Hosts) -> None:
    with hosts.open() as connector:
        first = connector.run(["sh", "-c", "cut -d ' ' -f 4 /proc/$PPID/stat"]).stdout.strip()
        hosts.node.check(["kill", "-KILL", first])
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


def test_closing_wakes_waiting_threads(hosts: Hosts) -> None:
    with ThreadPoolExecutor(1) as pool, hosts.open() as connector:
        running = pool.submit(connector.run, [*LONG, "/tmp/closed", "100"])
        appears(hosts.node, "/tmp/closed")
        connector.close()
        with pytest.raises(TransportError):
            running.result(60.0)
        await_end(hosts.node, hosts.node.check(["cat", "/tmp/closed"]).strip())


def test_a_detached_command_outlives_its_connection_and_runs_once(hosts: Hosts) -> None:
    script = 'echo ran >> "$1"; while [ ! -e "$1.go" ]; do sleep 0.05; done; cat; exit 5'
    argv = ["sh", "-c", script, "sh", "/tmp/detached"]
    with hosts.open() as connector, ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            connector.run_detached, argv, run_id="once", input=b"\xc3\xa9", timeout_s=100.0
        )
        for _ in range(2):
            appears(hosts.node, "/tmp/detached")
            ssh.stop(hosts.node)
            time.sleep(0.5)
            ssh.start(hosts.node, hosts.authorized)
            assert hosts.node.run(["pgrep", "--full", "detached"]).status == 0
        hosts.node.check(["touch", "/tmp/detached.go"])
        done = running.result(60.0)
        assert (done.status, done.stdout) == (5, "é")
        assert connector.run(["cat", "/tmp/detached"]).stdout == "ran\n"
        assert connector.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == ""


def test_a_detached_command_ends_when_its_time_is_up(hosts: Hosts, server: SshConnector) -> None:
    for timeout_s in LIMITS_S:
        with pytest.raises(CommandTimeout, match=rf"sh -c: not finished after {timeout_s:.0f} s$"):
            server.run_detached([*LONG, "/tmp/late", "100"], run_id="late", timeout_s=timeout_s)
        if pid := server.run(["cat", "/tmp/late"]).stdout.strip():
            break
    await_end(hosts.node, pid)
    assert server.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == ""


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


def test_only_root_reaches_the_setuid_programs(hosts: Hosts) -> None:
    tree = hosts.cell.server.directory.parents[2] / "packages" / "root-only"
    assert tree.stat().st_mode & 0o777 == 0o700
