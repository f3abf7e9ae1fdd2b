"""What happens to hosts in use: lost connections, reboots, and programs that hang."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.cell import Node
from deploy.cell.network import SERVER_ADDRESS, client_address
from deploy.cell.server import FILESERVER_COMMAND, FILESERVER_COMPANIONS, VOLUME
from tests.acceptance.lab import RESTORE, Lab
from tests.acceptance.processes import inside
from tests.waiting import wait_for

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def drop_connections(node: Node) -> None:
    """Cut every SSH connection to a host; new ones are accepted."""
    listener = node.check(["cat", "/run/sshd.pid"]).strip()
    sessions = set(node.run(["pidof", "sshd"]).stdout.decode().split()) - {listener}
    for pid in sessions:
        node.run(["kill", "-KILL", pid])


def restart(lab: Lab, node: Node) -> None:
    """Simulate a reboot: all processes and everything that was only in memory are gone.

    The bosserver is started again as on any fileserver; a client is not mounted again.
    """
    # First of all: nothing that has lost its processes may be seen with the identifier of before.
    boot = node.shared / "boot_id"
    is_mounted = boot.exists()
    boot.write_text(f"start {time.monotonic_ns()}\n")
    if not is_mounted:
        node.check(["mount", "--bind", f"/fstune/{boot.name}", _BOOT_ID])
    node.run(["sh", "-c", "kill -KILL -1"])
    node.run(["umount", "--lazy", "/afs"])
    node.check(["find", "/run", "-mindepth", "1", "-delete"])
    if node == lab.server:
        node.check(["bosserver"])
    node.check(["mkdir", "--parents", "/run/sshd"])
    lab.start_sshd(node)


def delete_fileserver(lab: Lab) -> None:
    """Leave the server as a run does that is killed between the deletion and the creation. The run
    that was killed may have deleted the instance itself.
    """
    for words in (["stop", SERVER_ADDRESS, "dafs", "-wait"], ["delete", SERVER_ADDRESS, "dafs"]):
        done = lab.server.run(["bos", *words, "-localauth"])
        assert done.status == 0 or b"no such entity" in done.stderr, done.stderr


def hear_nothing(lab: Lab) -> None:
    """Make the hosts' last heartbeat far too old."""
    past = 'echo -100000 > "$1.new" && mv "$1.new" "$1"'
    for node in (lab.server, *lab.clients):
        node.check(["sh", "-c", past, "sh", f"{RESTORE}/lease/heartbeat"])


@contextmanager
def cable_cut(lab: Lab) -> Iterator[None]:
    """Cut the desk's cable: no host can be reached."""
    port = ["ip", "link", "set", f"port{len(lab.cell.clients)}"]
    lab.server.check([*port, "down"])
    try:
        yield
    finally:
        lab.server.check([*port, "up"])


@contextmanager
def slow(node: Node, program: str, only: str) -> Iterator[Path]:
    """Make a program of a host block when it is called with the word ``only``.

    It waits until the file that this yields is removed; a file with the suffix ``.met`` next to it
    shows that it is waiting.
    """
    gate = node.shared / f"gate-{program}"
    name = f"/fstune/{gate.name}"
    text = (
        "#!/bin/sh\n"
        f'case " $* " in *" {only} "*)\n'
        f"    [ ! -e {name} ] || : > {name}.met\n"
        f"    while [ -e {name} ]; do sleep 0.05; done ;;\n"
        "esac\n"
        # Under its own name, so that it looks as if it had been called directly.
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
        f'exec {program} "$@"\n'
    )
    gate.write_text("")
    try:
        with standing_in(node, program, text):
            yield gate
    finally:
        gate.unlink(missing_ok=True)
        gate.with_name(f"{gate.name}.met").unlink(missing_ok=True)


def meets(gate: Path) -> None:
    """Wait until a program is blocked at its gate."""
    wait_for(gate.with_name(f"{gate.name}.met").exists, f"{gate.name} to be met")


@contextmanager
def standing_in(node: Node, program: str, text: str) -> Iterator[None]:
    """Make a host run a script instead of a program that is called by name."""
    node.check(["mount", "-t", "tmpfs", "tmpfs", "/usr/local/bin"])
    try:
        node.check(["sh", "-c", 'printf %s "$1" > "$2"', "sh", text, f"/usr/local/bin/{program}"])
        node.check(["chmod", "755", f"/usr/local/bin/{program}"])
        yield
    finally:
        node.check(["umount", "--lazy", "/usr/local/bin"])


@contextmanager
def another_fileserver(lab: Lab, volume: str) -> Iterator[None]:
    """Run a fileserver on the desk, with a copy of the lab's volume under another name."""
    desk, address = lab.desk, client_address(len(lab.cell.clients))
    keys = inside(lab.server, "/etc/openafs/server/KeyFileExt").read_bytes()
    own = ("/etc/openafs/server", "/var/lib", "/var/log", "/vicepa")
    desk.check(["mkdir", "--parents", *own])
    for path in own:
        desk.check(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path])
    try:
        desk.check(["cp", "/etc/openafs/ThisCell", "/etc/openafs/CellServDB", own[0]])
        inside(desk, "/etc/openafs/server/KeyFileExt").write_bytes(keys)
        desk.check(["mkdir", "--parents", "/var/lib/openafs", "/var/log/openafs"])
        desk.check(["mkdir", "--mode=700", "/var/lib/openafs/db", "/var/lib/openafs/local"])
        desk.check(["bosserver"])
        programs = (FILESERVER_COMMAND, *FILESERVER_COMPANIONS)
        create = ["bos", "create", address, "dafs", "dafs", *programs, "-localauth"]
        wait_for(lambda: desk.run(create).status == 0, "bosserver", 0.2)
        partition = ["vos", "partinfo", address, "-localauth"]
        wait_for(lambda: desk.run(partition).status == 0, "the volume server", 0.2)
        copy = f"vos dump {VOLUME} -localauth | vos restore {address} a {volume} -localauth"
        lab.server.check(["sh", "-c", copy])
        yield
        lab.server.check(["vos", "remove", address, "a", volume, "-localauth"])
    finally:
        for program in ("bosserver", "dafileserver", "davolserver", "salvageserver"):
            for pid in desk.run(["pidof", program]).stdout.decode().split():
                desk.run(["kill", "-KILL", pid])
        for path in own:
            desk.check(["umount", "--lazy", path])


@contextmanager
def hanging(node: Node, program: str, only: str) -> Iterator[None]:
    """Make a program of a host (its path) hang when it is called with the words ``only``.

    It answers nothing, and only SIGKILL ends it.
    """
    name = program.rpartition("/")[2]
    real, stand_in = f"/fstune/{name}-real", f"/fstune/{name}-hangs"
    text = (
        "#!/bin/bash\n"
        f'case " $* " in *" {only} "*) kill -STOP $$ ;; esac\n'
        # Under its own name, so that it looks as if it had been called directly.
        f'exec -a "$0" {real} "$@"\n'
    )
    node.check(["cp", program, real])
    (node.shared / f"{name}-hangs").write_text(text)
    node.check(["chmod", "755", stand_in])
    node.check(["mount", "--bind", stand_in, program])
    try:
        yield
    finally:
        node.check(["umount", "--lazy", program])
