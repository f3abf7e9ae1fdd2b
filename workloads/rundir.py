"""The run directory: the only place where the engine writes or deletes, and how it is recognized.

It is ``fstune-<run id>`` in the given directory, created by the first stage. A marker file in it
identifies its owner; without that marker nothing in it is ever touched.

It never exists without its marker: it is created, and at the end removed, under the hidden name
``.fstune-<run id>``, and renamed in between. So a run that is killed at any moment can be cleaned
up. A directory of that hidden name holds nothing but the marker.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress

from workloads.failure import Failure, WorkloadFailure, os_failure

MARKER = ".fstune-run.json"
_OWNER = "fstune-workloads"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FILE_OVERHEAD_BYTES = 4096
_CLEAN_PATIENCE_S = 5.0
#: For a directory that is not empty, rmdir(2) fails with either of the first two; AFS says EEXIST.
_IN_USE = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOENT)


def check_run_id(run_id: str) -> str:
    """Return the run id.

    Raises ValueError unless it is 1 to 64 letters, digits, dots, underscores and hyphens, the first
    a letter or digit.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(
            f"run id {run_id!r}: 1 to 64 letters, digits, dots, underscores and hyphens,"
            " the first a letter or digit"
        )
    return run_id


def path_of(directory: str, run_id: str) -> str:
    """Return the path of the run directory."""
    return os.path.join(os.path.abspath(directory), f"fstune-{check_run_id(run_id)}")


def create(root: str, identity: dict[str, str], files: int, total_bytes: int) -> None:
    """Create the run directory and its marker, after checking that there is room.

    ``identity`` (run id, seed, spec hash) goes into the marker. Raises WorkloadFailure.
    """
    hidden = _hidden(root)
    try:
        _check_room(os.path.dirname(root), files, total_bytes)
        if os.path.lexists(root):  # a rename would replace an empty directory
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), root)
        os.mkdir(hidden, 0o755)
        try:
            with open(os.path.join(hidden, MARKER), "x", encoding="utf-8") as marker:
                json.dump({"made_by": _OWNER, **identity}, marker)
            os.rename(hidden, root)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "mkdir", root, "run-directory")) from None


def check(root: str, identity: dict[str, str]) -> None:
    """Raise WorkloadFailure unless ``root`` is the run directory with exactly that identity."""
    marker = _marker(root)
    for key, value in identity.items():
        if marker.get(key) != value:
            raise _not_ours(root, f"belongs to another run: {key} is {marker.get(key)!r}")


def remove(root: str, run_id: str) -> bool:
    """Remove the run directory; return False when there was none.

    The contents are removed first and the marker last, so that an interrupted removal can be
    repeated. Raises WorkloadFailure if the directory lacks our marker or cannot be removed.
    """
    hidden = _hidden(root)
    existed = _remove_hidden(hidden)
    if not os.path.lexists(root):
        return existed
    marker = _marker(root)
    if marker.get("run_id") != run_id:
        raise _not_ours(root, f"belongs to another run: run_id is {marker.get('run_id')!r}")
    _patiently(_empty, root)
    try:
        os.rename(root, hidden)
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "clean", root)) from None
    _remove_hidden(hidden)
    return True


def _hidden(root: str) -> str:
    """The name of the run directory while it is created or removed."""
    directory, name = os.path.split(root)
    return os.path.join(directory, f".{name}")


def _remove_hidden(hidden: str) -> bool:
    """Remove a hidden run directory; return False when there was none."""
    if not os.path.lexists(hidden):
        return False
    if os.path.islink(hidden):
        raise _not_ours(hidden, "is not a directory")
    _patiently(_remove_marker, hidden)
    return True


def _remove_marker(hidden: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(hidden, MARKER))
    os.rmdir(hidden)


def _patiently(step: Callable[[str], None], root: str) -> None:
    """Repeat ``step`` while files of the directory are in use. Raises WorkloadFailure."""
    patience_ends = time.monotonic() + _CLEAN_PATIENCE_S
    while True:
        try:
            step(root)
            return
        except OSError as error:
            # A file whose last close is still in progress leaves a hidden name behind for a moment.
            if error.errno not in _IN_USE or time.monotonic() > patience_ends:
                path = str(error.filename or root)
                raise WorkloadFailure(os_failure(error, "clean", path)) from None
            time.sleep(0.05)


def _empty(root: str) -> None:
    with os.scandir(root) as entries:
        entries_left = [entry for entry in entries if entry.name != MARKER]
    for entry in entries_left:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _marker(root: str) -> dict[str, object]:
    if os.path.islink(root) or not os.path.isdir(root):
        raise _not_ours(root, "is not a directory, or does not exist")
    path = os.path.join(root, MARKER)
    try:
        with open(path, encoding="utf-8") as marker:
            document = json.load(marker)
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "check", path, "run-directory")) from None
    except ValueError:
        raise _not_ours(root, "has a marker that cannot be read") from None
    if not isinstance(document, dict) or document.get("made_by") != _OWNER:
        raise _not_ours(root, "has a marker that is not ours")
    return document


def _check_room(directory: str, files: int, total_bytes: int) -> None:
    room = os.statvfs(directory)
    needed_bytes = total_bytes + files * _FILE_OVERHEAD_BYTES
    free = room.f_bavail * room.f_frsize
    # Some network filesystems report no size at all; then running out of space shows only later.
    if room.f_blocks and free < needed_bytes:
        raise WorkloadFailure(
            Failure(
                "no-space",
                "statvfs",
                directory,
                errno.ENOSPC,
                f"{free} bytes free, {needed_bytes} needed",
            )
        )


def _not_ours(root: str, why: str) -> WorkloadFailure:
    return WorkloadFailure(Failure("run-directory", "check", root, None, f"{why}; left alone"))
