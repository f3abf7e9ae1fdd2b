"""A client node of a private cell: one afsd.fuse cache manager at a time, mounted at /afs.

Owns starting it with given options and ending it so that nothing of its cache is left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from deploy.cell.errors import CellError, MountError
from deploy.cell.node import Node
from deploy.cell.server import CELL_NAME, VOLUME

MOUNT_POINT = "/afs"
CACHE_DIRECTORY = "/var/cache/openafs"
#: Where the benchmark volume is seen: no mount point in another volume is needed.
VOLUME_PATH = f"{MOUNT_POINT}/.:mount/{CELL_NAME}:{VOLUME}"

#: The file that afsd reads for defaults: mount point, cache directory, cache size in 1-KiB blocks.
CACHE_INFO = f"{MOUNT_POINT}:{CACHE_DIRECTORY}:200000\n"

#: Options that are not tuned: where things are, and a root directory made up by the client itself.
FIXED_OPTIONS = (
    "-dynroot",
    "-fakestat",
    "-cachedir",
    CACHE_DIRECTORY,
    "-mountdir",
    MOUNT_POINT,
)

_READY_TIMEOUT_S = 20.0
#: How long a cache manager may take to end by itself, and who sits in its files to leave.
_GRACE_S = 5.0
_POLL_S = 0.02


def mount(client: Node, options: Sequence[str]) -> None:
    """Start the cache manager with ``options`` besides the fixed ones; returns when the volume can
    be read.

    Raises MountError with what afsd.fuse printed when it does not come up; nothing is left mounted
    then.
    """
    problem = _start(client, options)
    if problem is not None:
        unmount(client)
        raise MountError(f"{client.name}: afsd.fuse does not serve {VOLUME_PATH}: {problem}")


def unmount(client: Node) -> None:
    """End the cache manager, if one runs, and wipe its cache. Raises CellError when it will not
    end.

    A cache manager that hangs, or that somebody keeps busy, is ended by force after some seconds:
    whoever still uses its files gets an error from them then.
    """
    deadline = time.monotonic() + _GRACE_S
    # The daemon writes its cache back after the unmount: only its end makes wiping safe.
    while _mounted(client) or _daemons(client):
        if time.monotonic() > deadline:
            _end_by_force(client)
            break
        if _mounted(client) and _detach(client) is None:
            continue
        time.sleep(_POLL_S)
    client.check(["find", CACHE_DIRECTORY, "-mindepth", "1", "-delete"])


def _start(client: Node, options: Sequence[str]) -> str | None:
    """Start the cache manager and wait for the volume; what is wrong, None when it is there."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    probe = ["stat", "--format=%F", VOLUME_PATH]
    try:
        done = client.run(["afsd.fuse", *FIXED_OPTIONS, *options], timeout_s=_READY_TIMEOUT_S)
        while done.status == 0:
            seen = client.run(probe, timeout_s=_READY_TIMEOUT_S)
            if seen.status == 0:
                return None
            if time.monotonic() > deadline or not _daemons(client):
                return seen.stderr.decode(errors="replace").strip()
            time.sleep(_POLL_S)
    except TimeoutError as problem:
        return str(problem)
    said = (done.stderr + done.stdout).decode(errors="replace").strip()
    return said or f"exit status {done.status}"


def _mounted(client: Node) -> bool:
    # Not by asking the file system: one that hangs does not answer.
    for line in Path(f"/proc/{client.init.pid}/mountinfo").read_text().splitlines():
        where, _, what = line.partition(" - ")
        if where.split()[4] == MOUNT_POINT and what.startswith("fuse"):
            return True
    return False


def _daemons(client: Node) -> list[str]:
    """The processes of the cache manager, as the node numbers them."""
    return client.run(["pidof", "afsd.fuse"]).stdout.decode().split()


def _detach(client: Node, *how: str) -> str | None:
    """Unmount; what is wrong, None when it worked."""
    try:
        done = client.run(["umount", *how, MOUNT_POINT], timeout_s=_GRACE_S)
    except TimeoutError as problem:
        return str(problem)
    return done.stderr.decode(errors="replace").strip() if done.status != 0 else None


def _end_by_force(client: Node) -> None:
    deadline = time.monotonic() + _GRACE_S
    problem: str | None = None
    while (daemons := _daemons(client)) or _mounted(client):
        if time.monotonic() > deadline:
            what = f"afsd.fuse ({', '.join(daemons)}) does not die" if daemons else problem
            raise CellError(f"{client.name}: {MOUNT_POINT} cannot be unmounted: {what}")
        if daemons:
            # The kernel then fails every request that waits for it.
            client.run(["sh", "-c", 'kill -KILL "$@"', "sh", *daemons])
        if _mounted(client):
            problem = _detach(client, "--lazy")
        time.sleep(_POLL_S)
