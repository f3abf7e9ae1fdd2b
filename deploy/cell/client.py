"""A client node of a private cell: one afsd.fuse cache manager at a time, mounted at /afs.

Owns starting it with given options and ending it so that nothing of its cache is left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from deploy.cell.errors import CellError
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
_POLL_S = 0.02


def mount(client: Node, options: Sequence[str]) -> None:
    """Start the cache manager with ``options`` besides the fixed ones; returns when the volume can
    be read.

    Raises CellError with what afsd.fuse printed when it does not come up; nothing is left mounted
    then.
    """
    done = client.run(["afsd.fuse", *FIXED_OPTIONS, *options], timeout_s=_READY_TIMEOUT_S)
    said = (done.stderr + done.stdout).decode(errors="replace").strip()
    if done.status == 0:
        probe = client.run(["stat", "--format=%F", VOLUME_PATH], timeout_s=_READY_TIMEOUT_S)
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while probe.status != 0 and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            probe = client.run(["stat", "--format=%F", VOLUME_PATH], timeout_s=_READY_TIMEOUT_S)
        if probe.status == 0:
            return
        said = probe.stderr.decode(errors="replace").strip()
    unmount(client)
    raise CellError(f"{client.name}: afsd.fuse does not serve {VOLUME_PATH}: {said or done.status}")


def unmount(client: Node) -> None:
    """End the cache manager, if one runs, and wipe its cache. Raises CellError when it will not
    end.
    """
    deadline = time.monotonic() + _READY_TIMEOUT_S
    detach = ["umount", MOUNT_POINT]
    while client.run(["mountpoint", "--quiet", MOUNT_POINT]).status == 0:
        done = client.run(detach, timeout_s=_READY_TIMEOUT_S)
        if done.status != 0 and time.monotonic() > deadline:
            raise CellError(
                f"{client.name}: {MOUNT_POINT} stays mounted: {done.stderr.decode().strip()}"
            )
    # The daemon writes its cache back after the unmount: only its end makes wiping safe.
    while client.run(["pidof", "afsd.fuse"]).status == 0:
        if time.monotonic() > deadline:
            raise CellError(f"{client.name}: afsd.fuse does not end after the unmount")
        time.sleep(_POLL_S)
    client.check(["find", CACHE_DIRECTORY, "-mindepth", "1", "-delete"])
