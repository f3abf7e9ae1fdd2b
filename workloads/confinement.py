"""Keeps a worker inside the run directory.

Whoever may write in the volume under test may replace what is in the run directory by links at any
moment. A root that followed them would overwrite or remove files anywhere on the client.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter

from workloads.failure import Failure, WorkloadFailure

try:
    import ctypes
except ImportError:  # some builds of Python lack it
    ctypes = None  # type: ignore[assignment]

_OPEN_TREE = 428
"""The number of open_tree(2), on every processor but Alpha; since Linux 5.2."""

_OPEN_TREE_CLONE = 1
_AT_EMPTY_PATH = 0x1000


def confine(directory: int, path: str) -> None:
    """Make an open directory the working directory and, as root, the root directory of this
    process. From now on paths in it must be relative, and no module is imported from a file.

    Raises OSError, and WorkloadFailure for a root that may not change its root directory; ``path``
    is the directory's name in messages.
    """
    # They would be looked for in the directory, where somebody else may have put a module.
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]
    if os.geteuid() != 0:
        os.fchdir(directory)
        return
    os.fchdir(_detached(directory))
    try:
        os.chroot(".")
    except PermissionError as error:
        message = (
            "root may not use chroot(2) here, so that links of other users could lead it out of the"
            " run directory; run the engine as another user, or with CAP_SYS_CHROOT"
        )
        failure = Failure("run-directory", "chroot", path, error.errno, message)
        raise WorkloadFailure(failure) from None


def _detached(directory: int) -> int:
    """Return the directory as a mount of its own, or as it is where the kernel is too old.

    From a directory that is moved out of a root directory during a look-up, ".." leads on upwards;
    the kernel lets it not lead out of a mount.
    """
    if ctypes is None:
        return directory
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
    tree = int(ctypes.CDLL(None).syscall(_OPEN_TREE, directory, b"", flags))
    return directory if tree < 0 else tree
