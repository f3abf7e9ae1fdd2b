"""Client node of a private cell: start its first afsd.fuse cache manager, mounted at /afs.

Options are changed later by the tuner. The cache manager ends with the node.
"""

from __future__ import annotations

import time

from deploy.cell.errors import CellError
from deploy.cell.node import Node
from deploy.cell.server import CELL_NAME, VOLUME

MOUNT_POINT = "/afs"
CACHE_DIRECTORY = "/var/cache/openafs"
#: Path of the benchmark volume; it needs no mount point in another volume.
VOLUME_PATH = f"{MOUNT_POINT}/.:mount/{CELL_NAME}:{VOLUME}"

#: Cache size of a new client, in 1-KiB blocks.
INITIAL_BLOCKS = 200_000

#: Options that are not tuned: locations, and a root directory synthesized by the client.
FIXED_OPTIONS = (
    "-dynroot",
    "-fakestat",
    "-cachedir",
    CACHE_DIRECTORY,
    "-mountdir",
    MOUNT_POINT,
)

#: Full path: the original program is restarted by this path, with an identical command line.
_PROGRAM = "/usr/sbin/afsd.fuse"
_READY_TIMEOUT_S = 20.0
_POLL_S = 0.02


def cache_info(blocks: int = INITIAL_BLOCKS) -> str:
    """Return afsd's defaults file (cacheinfo): mount point, cache directory, cache size."""
    return f"{MOUNT_POINT}:{CACHE_DIRECTORY}:{blocks}\n"


def mount(client: Node, blocks: int = INITIAL_BLOCKS) -> None:
    """Start the cache manager with the initial options and wait until the volume is readable.

    ``blocks``: its cache size, in 1-KiB blocks. Raises CellError with the output of afsd.fuse if it
    does not come up.
    """
    problem = _start(client, blocks)
    if problem is not None:
        raise CellError(f"{client.name}: afsd.fuse does not serve {VOLUME_PATH}: {problem}")


def _start(client: Node, blocks: int) -> str | None:
    """Start the cache manager and wait for the volume. Returns the error text, or None."""
    command = [_PROGRAM, *FIXED_OPTIONS, "-blocks", str(blocks)]
    deadline = time.monotonic() + _READY_TIMEOUT_S
    probe = ["stat", "--format=%F", VOLUME_PATH]
    try:
        result = client.run(command, timeout_s=_READY_TIMEOUT_S)
        while result.status == 0:
            listing = client.run(probe, timeout_s=_READY_TIMEOUT_S)
            if listing.status == 0:
                return None
            if time.monotonic() > deadline:
                return listing.stderr.decode(errors="replace").strip()
            time.sleep(_POLL_S)
    except TimeoutError as problem:
        return str(problem)
    output = (result.stderr + result.stdout).decode(errors="replace").strip()
    return output or f"exit status {result.status}"
