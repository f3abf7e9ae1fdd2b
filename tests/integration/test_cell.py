"""The private cell: up, down, complete, side by side, and after every kind of interruption."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.cell import Cell, CellError, Cells, CellSpec
from deploy.cell.network import SERVER_ADDRESS
from tests.integration.conftest import (
    SHARED,
    Trace,
    command,
    environment,
    mounts_below,
    run_to_end,
)
from tests.waiting import wait_for
from tuner.cli import main
from tuner.errors import TestbedError
from tuner.measure.workload import load_workload
from tuner.services.openafs.assembly import usual_requirements
from tuner.services.openafs.cell import CellTestbed

pytestmark = pytest.mark.cell

Fstune = Callable[..., subprocess.CompletedProcess[str]]
VOLUME = "/afs/.:mount/fstune.test:bench"


def fingerprint(path: Path) -> str:
    """A hash over content and timestamps of everything below a path on the host."""
    digest = hashlib.sha256()
    for entry in sorted([path, *path.rglob("*")]) if path.exists() else []:
        about = entry.lstat()
        digest.update(f"{entry} {about.st_mode} {about.st_mtime_ns} {about.st_ino}\n".encode())
        if stat.S_ISREG(about.st_mode) and about.st_size < 20_000_000:
            digest.update(entry.read_bytes())
    return digest.hexdigest()


def host() -> dict[str, str]:
    paths = [Path("/etc"), Path("/afs"), *Path("/").glob("vicep*")]
    paths += [Path("/var/lib/openafs"), Path("/var/cache/openafs"), Path("/var/log/openafs")]
    paths += [Path("/var/lib/dpkg/status"), Path("/var/lib/dpkg/info"), Path("/var/cache/debconf")]
    paths += [Path("/var/lib/apt/lists"), Path("/var/cache/apt/archives")]
    return {str(path): fingerprint(path) for path in paths} | {"links": links()}


def links() -> str:
    return " ".join(sorted(os.listdir("/sys/class/net")))


@pytest.fixture(scope="module")
def host_before() -> dict[str, str]:
    return host()


@pytest.fixture(scope="module")
def side(host_before: dict[str, str], cells: Cells) -> Iterator[Cell]:
    """A second cell in addition to the shared one, with a slow link; tests may break it."""
    cells.down("side")
    yield cells.up(CellSpec("side", clients=2, link="50mbit"))
    cells.down("side")


def test_the_volume_is_open_to_everybody_and_only_seen_inside(cell: Cell) -> None:
    client = cell.clients[0]
    client.check(["sh", "-c", f"echo hello > {VOLUME}/greeting"])
    assert client.check(["cat", f"{VOLUME}/greeting"]) == "hello\n"
    client.check(["rm", f"{VOLUME}/greeting"])
    assert not Path("/afs/.:mount").exists()
    assert mounts_below(cell.server.directory.parent) == []


def test_up_again_returns_the_same_cell(cell: Cell, cells: Cells, fstune: Fstune) -> None:
    assert cells.up(CellSpec(SHARED)) == cell
    with pytest.raises(CellError, match="is up with 1 client"):
        cells.up(CellSpec(SHARED, clients=2))
    done = fstune("cell", "up", "--name", SHARED)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        f"cell {SHARED} is up: server, client1",
    )
    assert cells.load(SHARED) == cell


def test_nobody_else_can_read_a_key(cell: Cell) -> None:
    home = cell.server.directory
    keys = list((home / "etc" / "server").glob("KeyFile*"))
    assert keys
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
    assert home.parent.stat().st_mode & 0o077 == 0
    secrets = [key.read_bytes() for key in keys]
    files = [path for path in Path(cell.server.shared).rglob("*") if path.is_file()]
    assert not [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


@pytest.mark.parametrize(
    "words",
    [
        ["a b", "it's", '"quoted"', "$(touch /tmp/x)", "`id`", "*", "back\\slash", "new\nline", ""],
        ["-n", "x", "--name", "--help", "--state-dir=/", "-long", "--"],
    ],
)
def test_exec_hands_arguments_on_unharmed(cell: Cell, fstune: Fstune, words: list[str]) -> None:
    print_them = 'for word do printf "%s\\0" "$word"; done'
    done = fstune(
        "cell", "exec", "--name", SHARED, "client1", "--", "sh", "-c", print_them, "sh", *words
    )
    assert (done.returncode, done.stdout.split("\0")[:-1]) == (0, words)


def test_exec_ends_with_the_status_of_the_command(cell: Cell, fstune: Fstune) -> None:
    inside = ("cell", "exec", "--name", SHARED, "server")
    assert fstune(*inside, "sh", "-c", "exit 23").returncode == 23
    assert fstune(*inside, "no-such-command").returncode == 127


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exec", "--name", SHARED, "client9", "ls"], "has no node client9; it has server, cl"),
        (["exec", "--name", "absent", "client1", "ls"], "cell absent is not up; bring it up with"),
        (["up", "--name", "Bad_Name"], "cell name 'Bad_Name': use 1 to 32"),
        (["up", "--name", "x", "--link", "fast"], "link 'fast': write a rate such as"),
        (["up", "--name", "x", "--clients", "0"], "clients: 0 is not between"),
        (["down", "--name", "../etc"], "cell name '../etc'"),
    ],
)
def test_a_mistake_is_one_line(
    cell: Cell,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setenv("FSTUNE_STATE_DIR", str(state))
    monkeypatch.setattr(sys, "argv", ["fstune", "cell", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (len(err.splitlines()), out) == (1, "")


def test_down_of_a_cell_that_is_not_there(fstune: Fstune) -> None:
    done = fstune("cell", "down", "--name", "absent")
    assert (done.returncode, done.stdout) == (0, "there is no cell absent\n")


def test_without_root_it_says_so_in_one_line(root: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    script = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        "sys.argv[1:] = ['cell', 'up']; main()"
    )
    # Import it first: that user may not be able to read modules imported later.
    argv = [command()[0], "-c", f"import tuner.cli.cell; from tuner.cli import main; {script}"]
    done = run_to_end(argv, tmp_path)
    assert done.returncode == 6
    assert done.stderr == (
        "fstune: a private cell needs root (it makes namespaces and mounts): run it with sudo\n"
    )


def test_without_the_device_it_says_so_in_one_line(tmp_path: Path) -> None:
    hide = 'mount -t tmpfs none /dev && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", hide, "sh", *command("cell", "up")]
    done = run_to_end(argv, tmp_path)
    assert done.returncode == 6
    assert done.stderr.startswith("fstune: /dev/fuse is missing")
    assert "modprobe fuse" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_down_is_refused_while_a_campaign_uses_the_cell(
    cell: Cell, cells: Cells, fstune: Fstune
) -> None:
    with cells.use(SHARED):
        done = fstune("cell", "down", "--name", SHARED)
    assert done.returncode != 0
    assert "in use by a running campaign; stop that first" in done.stderr
    assert cell.is_alive()


def test_two_cells_live_side_by_side(cell: Cell, side: Cell, fstune: Fstune) -> None:
    for number, each in enumerate((cell, side)):
        each.clients[0].check(["sh", "-c", f"echo {number} > {VOLUME}/which"])
    assert cell.clients[0].check(["cat", f"{VOLUME}/which"]) == "0\n"
    assert [c.check(["cat", f"{VOLUME}/which"]) for c in side.clients] == ["1\n", "1\n"]
    cell.clients[0].check(["rm", f"{VOLUME}/which"])
    lines = fstune("cell", "status").stdout.splitlines()
    assert {f"{SHARED}: up, link unlimited", "side: up, link 50mbit"} <= set(lines)


def test_a_cell_that_a_killed_campaign_has_left_is_the_next_one_s(side: Cell, cells: Cells) -> None:
    def claim() -> bool:
        requirements = usual_requirements("afsd.fuse")
        return CellTestbed(cells.state, side.spec, requirements).claim("next")

    assert not claim()
    cells._record(replace(side, temporary=True))
    assert claim()
    # Whoever wants it up keeps it.
    assert not cells.up(side.spec).temporary
    assert not claim()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_fileserver_that_does_not_stay_up_begins_no_campaign(cells: Cells, stopped: bool) -> None:
    cell = cells.up(CellSpec("down"))
    testbed = CellTestbed(cells.state, cell.spec, usual_requirements("afsd.fuse"))
    dafs = (SERVER_ADDRESS, "dafs", "-localauth")
    try:
        programs = [f"/usr/lib/openafs/{p}" for p in ("davolserver", "salvageserver", "dasalvager")]
        cell.server.check(["bos", "stop", *dafs, "-wait"])
        if not stopped:
            cell.server.check(["bos", "delete", *dafs])
            refused = "/usr/lib/openafs/dafileserver -rxmaxmtu 300"
            create = ["bos", "create", SERVER_ADDRESS, "dafs", "dafs", refused, *programs]
            cell.server.check([*create, "-localauth"])
        testbed.claim("next")
        with pytest.raises(TestbedError) as refusal:
            testbed.open(load_workload("mixed-use"), lambda what: None)
        assert "server: the fileserver" in str(refusal.value)
        assert "dafileserver" in str(refusal.value)
        assert stopped or "rxMaxMTU 300 is invalid; correct its options" in str(refusal.value)
        assert cell.server.run(["test", "-e", "/fstune/restore/fileserver"]).status != 0
    finally:
        testbed.close()
        cells.down("down")


def test_unmounts_on_the_host_reach_the_nodes(cells: Cells) -> None:
    """Otherwise they would keep its disks busy. Debian's mounts are shared, not everybody's."""
    shared = ["sh", "-c", 'mount --make-rshared / && "$@" && cat', "sh"]
    within = ["unshare", "--mount", "--propagation=private", *shared]
    host = subprocess.Popen(
        [*within, *command("cell", "up", "--name", "slave")],
        env=environment(cells.state),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert host.stdout is not None
    try:
        assert host.stdout.readline().startswith("cell slave is up")
        cell = cells.load("slave")
        assert cell is not None
        for node in cell.nodes:
            assert " master:" in Path(f"/proc/{node.init.pid}/mountinfo").read_text()
    finally:
        host.communicate(timeout=100)
        cells.down("slave")


RECEIVE = """
import socket, time
listener = socket.create_server(("10.77.0.1", 5001))
# Limits what can arrive before the clock starts or while this process is not running.
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
print("listening", flush=True)
connection = listener.accept()[0]
connection.recv(1)
began = time.monotonic()
while connection.recv(1 << 20):
    pass
print(time.monotonic() - began, flush=True)
"""
SEND = """
import socket
connection = socket.create_connection(("10.77.0.1", 5001))
connection.sendall(bytes(8 << 20))
"""


def transfer_s(cell: Cell) -> float:
    """The time to transfer 8 MiB from client to server, in seconds."""
    receiver = subprocess.Popen(
        cell.server.enter(["python3", "-c", RECEIVE]), stdout=subprocess.PIPE, text=True
    )
    assert receiver.stdout is not None
    with receiver:
        assert receiver.stdout.readline() == "listening\n"
        cell.clients[0].check(["python3", "-c", SEND])
        return float(receiver.stdout.readline())


def test_a_link_is_really_limited(cell: Cell, side: Cell) -> None:
    shaped = transfer_s(side)
    assert 8 * (8 << 20) / shaped < 75e6
    # An unlimited virtual link is hundreds of times faster when the machine is not busy.
    assert any(8 * transfer_s(cell) < shaped for _ in range(20))


@pytest.mark.parametrize("name", ["ABRT", "BUS", "SEGV"])
def test_a_bosserver_that_crashes_is_started_again(side: Cell, name: str) -> None:
    """Corrupt memory ends it with one of these signals."""

    def pid() -> str:
        return side.server.run(["pidof", "bosserver"]).stdout.decode()

    def answers_again() -> bool:
        status = side.server.run(["bos", "status", SERVER_ADDRESS, "dafs", "-localauth"])
        return pid() not in ("", crashed) and "currently running" in status.stdout.decode()

    crashed = pid()
    side.server.check(["kill", f"-{name}", crashed.strip()])
    wait_for(answers_again, f"bosserver after SIG{name}")
    log = (side.server.directory / "log" / "bosserver").read_text()
    status = 128 + getattr(signal, f"SIG{name}")
    assert f"bosserver has ended with status {status}\n" in log


def test_after_all_its_processes_were_killed_it_comes_up_and_goes_down(
    host_before: dict[str, str], cell: Cell, side: Cell, cells: Cells
) -> None:
    before = Trace.of(side)
    for node in side.nodes:
        os.kill(node.init.pid, signal.SIGKILL)
        os.waitpid(node.starter.pid, 0)
    assert before.is_gone(), before.left()
    record = side.server.directory.parent / "cell.json"
    document = json.loads(record.read_text())
    for node in document["nodes"]:
        for process in (node["init"], node["starter"]):
            process["boot_id"] = "another boot"
    record.write_text(json.dumps(document))
    again = cells.up(CellSpec("side"))
    assert again.is_alive()

    # Again with an unreadable record, while its processes are running.
    trace = Trace.of(again)
    record.write_text(record.read_text()[:-20])
    assert cells.down("side")
    assert trace.is_gone(), trace.left()
    assert not record.parent.exists()
    assert not cells.down("side")
    assert cell.is_alive()
    assert host() == host_before


def has_reached(directory: Path, moment: str) -> bool:
    """Whether a cell that is being built has reached ``moment``."""
    if moment == "recorded":
        return (directory / "cell.json").exists()
    if moment == "second node":
        return (directory / "client1" / "init.log").exists()
    if moment == "databases":
        return (directory / "server" / "log" / "PtLog").exists()
    return (directory / "server" / "log" / "FileLog").exists()


@pytest.mark.parametrize("moment", ["recorded", "second node", "databases", "fileserver"])
def test_up_killed_at_any_moment_leaves_nothing_after_down(
    state: Path, cells: Cells, cell: Cell, moment: str
) -> None:
    name, directory = "cut-off", state / "cells" / "cut-off"
    cells.down(name)
    building = subprocess.Popen(
        command("cell", "up", "--name", name),
        env=environment(state),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: has_reached(directory, moment), moment)
        time.sleep(random.Random(moment).uniform(0.0, 0.2))
    finally:
        building.kill()
        building.wait()
    left = cells.load(name)
    # The first thing recorded is a cell without nodes.
    trace = Trace.of(left) if left is not None and left.nodes else None
    if moment == "fileserver":
        again = cells.up(CellSpec(name))
        assert trace is not None
        first = trace
        if again != left:  # the first attempt was killed before it was complete
            wait_for(lambda: not first.running(), "the end of the first try's processes")
        loaded = cells.load(name)
        assert loaded is not None
        trace = Trace.of(loaded)
    assert cells.down(name)
    assert trace is None or trace.is_gone(), trace.left()
    assert not directory.exists()
    assert mounts_below(directory) == []


def test_up_interrupted_leaves_nothing(state: Path, cells: Cells, cell: Cell) -> None:
    name, directory = "stopped", state / "cells" / "stopped"
    for _ in range(5):
        cells.down(name)
        building = subprocess.Popen(
            command("cell", "up", "--name", name),
            env=environment(state),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: has_reached(directory, "databases"), "the databases")
        left = cells.load(name)
        assert left is not None
        trace = Trace.of(left)
        building.send_signal(signal.SIGINT)
        if building.wait(100) != 0:
            break  # it was not done yet
    assert trace.is_gone(), trace.left()
    assert not directory.exists()


def test_two_processes_that_bring_up_one_cell_get_the_same(cells: Cells, state: Path) -> None:
    cells.down("twice")
    both = [
        subprocess.Popen(
            command("cell", "up", "--name", "twice"),
            env=environment(state),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        answers = [process.communicate(timeout=100) for process in both]
        assert [process.returncode for process in both] == [0, 0], answers
        assert answers[0][0] == answers[1][0]
        loaded = cells.load("twice")
        assert loaded is not None
        assert loaded.is_alive()
        trace = Trace.of(loaded)
    finally:
        cells.down("twice")
    assert trace.is_gone(), trace.left()
