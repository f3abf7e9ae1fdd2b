"""What a machine must have for a private cell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from deploy.cell.errors import CellError
from deploy.cell.node import ENVIRONMENT

_FILESYSTEMS = Path("/proc/filesystems")
_TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}


def require_machine() -> None:
    """Check that a cell can run on this machine; loads the kernel's overlay file system.

    Raises CellError with what is missing and how to fix it.
    """
    require_root()
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as problem:
        raise CellError(
            f"/dev/fuse is missing or cannot be used ({problem.strerror}): load it with "
            "'modprobe fuse', or give the container the device"
        ) from problem
    # Where nodes look for programs: the PATH of a root shell may lack the directories of tc.
    path = ENVIRONMENT["PATH"]
    for tool, package in _TOOLS.items():
        if shutil.which(tool, path=path) is None:
            raise CellError(f"{tool} is missing: apt-get install {package}")
    # In Debian's kernels it is a module, which may not be loaded yet.
    if not _has_overlay() and (modprobe := shutil.which("modprobe", path=path)) is not None:
        subprocess.run([modprobe, "--quiet", "overlay"], capture_output=True, check=False)
    if not _has_overlay():
        raise CellError(
            "the kernel has no overlay file system: load it with 'modprobe overlay', in a "
            "container on its host"
        )


def require_root() -> None:
    """Raise CellError unless we are root."""
    if os.geteuid() != 0:
        raise CellError(
            "a private cell needs root (it makes namespaces and mounts): run it with sudo"
        )


def require_own(directory: Path) -> None:
    """Raise CellError if a directory belongs to another user, who could have put there what a cell
    runs as root.
    """
    owner = directory.stat().st_uid
    if owner not in (0, os.geteuid()):
        raise CellError(
            f"{directory} belongs to the user with the ID {owner}, so nothing in it is run as "
            "root; name another state directory, or give it to root (chown --recursive root)"
        )


def _has_overlay() -> bool:
    return "overlay" in _FILESYSTEMS.read_text().split()
