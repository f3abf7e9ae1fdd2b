"""A local user of a host, who can give a process any name and any arguments, and knows what fstune
looks for.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.cell import Node
from deploy.cell.client import CACHE_DIRECTORY, MOUNT_POINT
from tests.waiting import wait_for

UID = 1234
OPTIONS = ("-dynroot", "-fakestat", "-cachedir", CACHE_DIRECTORY, "-mountdir", MOUNT_POINT)
#: The arguments are in the process's own memory (proc(5) stat, fields 48 and 49), and whatever is
#: there is shown to everybody. Its length is fixed, so the original arguments are made to fit.
_PRETEND = """
import ctypes, os, sys, time
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
os.setsid()
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[45]), int(fields[46])
shown = bytes.fromhex({shown!r})
ctypes.memmove(start, shown + bytes(end - start - len(shown)), end - start)
time.sleep(300)
"""


@contextmanager
def decoy(
    node: Node, command: Sequence[str], user: int = UID, python: str = "python3"
) -> Iterator[int]:
    """Run a user's process that shows ``command`` as its own and is newer than the real one.

    ``python``: the interpreter that runs it. Yields its process id within the node.
    """
    arguments = "".join(f"{word}\0" for word in command).encode()
    script = node.shared / f"pretend-{time.monotonic_ns()}.py"
    script.write_text(_PRETEND.format(uid=user, shown=arguments.hex()))
    argv = [python, f"/fstune/{script.name}"]
    argv.append("x" * max(1, len(arguments) - sum(len(word) + 1 for word in argv) - 1))
    before = called(node, command[0])
    process = subprocess.Popen(node.enter(argv), stdin=subprocess.DEVNULL)
    pid = None
    try:
        wait_for(lambda: bool(called(node, command[0]) - before), "the decoy")
        (pid,) = called(node, command[0]) - before
        yield pid
    finally:
        # The process that entered the node may have ended, but not what it started there.
        if pid is not None:
            node.run(["kill", "-KILL", str(pid)])
            # While it ends, it still has its name, and no arguments.
            wait_for(lambda: pid not in called(node, command[0]), "the decoy's end")
        process.kill()
        process.wait()
        script.unlink()


def called(node: Node, program: str) -> set[int]:
    """Return every process with a program's name, whoever owns it."""
    name = program.rpartition("/")[2]
    return set(map(int, node.run(["pidof", name]).stdout.split()))


def of_root(node: Node, program: str) -> list[tuple[str, ...]]:
    """Return the arguments, without the name, of every process of root with a program's name."""
    commands = []
    for pid in sorted(called(node, program)):
        uids = node.run(["sh", "-c", f"grep ^Uid: /proc/{pid}/status"]).stdout.split()[1:]
        line = node.run(["cat", f"/proc/{pid}/cmdline"]).stdout.decode().split("\0")
        if uids == [b"0"] * 4:
            commands.append(tuple(line[1:-1]))
    return commands


@contextmanager
def trap(node: Node) -> Iterator[tuple[str, Path]]:
    """Create a user's program with the name of the real one.

    Yields its path in the node, and the file (on this side) that exists once root has run it.
    """
    directory = f"/tmp/trap-{time.monotonic_ns()}"
    proof = node.shared / f"proof-{time.monotonic_ns()}"
    text = (
        f'#!/bin/sh\n[ "$(id -u)" != 0 ] || touch /fstune/{proof.name}\n'
        'exec /usr/sbin/afsd.fuse "$@"\n'
    )
    node.check(["mkdir", directory])
    program = f"{directory}/afsd.fuse"
    node.check(["sh", "-c", 'printf %s "$1" > "$2"; chmod 755 "$2"', "sh", text, program])
    node.check(["chown", "--recursive", str(UID), directory])
    try:
        yield program, proof
    finally:
        node.check(["rm", "--recursive", directory])
        proof.unlink(missing_ok=True)
