"""The run directory: the only place where the engine writes or deletes, and how it is recognized.

It is ``fstune-<run id>`` in the given directory, created by the first stage. A marker file in it
identifies its owner; without that marker nothing in it is ever touched. Others may be replacing
what is there at any moment: it is looked up once, and from then on reached by its descriptor.

It never exists without its marker: it is created, and at the end removed, under the hidden name
``.fstune-<run id>``, and renamed in between. So a run that is killed at any moment can be cleaned
up. A directory of that hidden name holds nothing but the marker.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from workloads.confinement import confine
from workloads.failure import Failure, WorkloadFailure, os_failure

MARKER = ".fstune-run.json"
_OWNER = "fstune-workloads"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FILE_OVERHEAD_BYTES = 4096
_MARKER_CHARACTERS = 1 << 16
#: To look up names in a directory takes no right to list it.
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LISTING = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
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
    above, name = os.path.split(root)
    hidden = f".{name}"
    try:
        _check_room(above, files, total_bytes)
        with _open(above) as parent:
            if _exists(name, parent):  # a rename would replace an empty directory
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), root)
            os.mkdir(hidden, 0o755, dir_fd=parent)
            try:
                with _open(hidden, parent) as directory:
                    opener = partial(_open_marker, directory)
                    with open(MARKER, "x", encoding="utf-8", opener=opener) as marker:
                        json.dump({"made_by": _OWNER, **identity}, marker)
                os.rename(hidden, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(OSError):
                    _remove_marker(hidden, parent)
                raise
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "mkdir", root, "run-directory")) from None


def enter(root: str, identity: dict[str, str]) -> int:
    """Confine this process to the run directory; return a descriptor of the directory above it.

    Raises WorkloadFailure unless ``root`` is the run directory with exactly that identity.
    """
    try:
        parent = os.open(os.path.dirname(root), _DIRECTORY)
        with _open_run(root, parent) as directory:
            marker = _marker(directory, root)
            for key, value in identity.items():
                if marker.get(key) != value:
                    raise _not_ours(root, f"belongs to another run: {key} is {marker.get(key)!r}")
            confine(directory, root)
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "check", root, "run-directory")) from None
    return parent


def remove(root: str, run_id: str) -> bool:
    """Remove the run directory; return False when there was none.

    The contents are removed first and the marker last, so that an interrupted removal can be
    repeated. Raises WorkloadFailure if the directory lacks our marker or cannot be removed.
    """
    try:
        with _open(os.path.dirname(root)) as parent:
            return remove_from(parent, root, run_id)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "clean", root)) from None


def remove_from(parent: int, root: str, run_id: str) -> bool:
    """Remove the run directory as ``remove`` does, given the open directory above it.

    No link is followed at any moment, since others may be replacing what is there.
    """
    name = os.path.basename(root)
    try:
        existed = _remove_hidden(root, parent)
        if not _exists(name, parent):
            return existed
        with _open_run(root, parent) as directory:
            marker = _marker(directory, root)
            if marker.get("run_id") != run_id:
                raise _not_ours(root, f"belongs to another run: run_id is {marker.get('run_id')!r}")
            _patiently(partial(_empty, directory, root, MARKER), root)
        os.rename(name, f".{name}", src_dir_fd=parent, dst_dir_fd=parent)
        _remove_hidden(root, parent)
    except RecursionError:
        deep = "its directories are nested too deeply; remove it with rm"
        raise WorkloadFailure(Failure("run-directory", "clean", root, None, deep)) from None
    except OSError as error:
        raise WorkloadFailure(os_failure(error, "clean", root)) from None
    return True


def _exists(name: str, parent: int) -> bool:
    try:
        os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _open(name: str, parent: int | None = None, flags: int = _DIRECTORY) -> Iterator[int]:
    """Open a directory, which in ``parent`` must not be a link."""
    if parent is not None:
        flags |= os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _open_run(root: str, parent: int) -> Iterator[int]:
    """Open the run directory itself."""
    try:
        descriptor = os.open(os.path.basename(root), _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        raise _not_ours(root, "is not a directory, or does not exist") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _remove_hidden(root: str, parent: int) -> bool:
    """Remove the hidden run directory; return False when there was none."""
    above, name = os.path.split(root)
    hidden = f".{name}"
    if not _exists(hidden, parent):
        return False
    path = os.path.join(above, hidden)
    if not stat.S_ISDIR(os.lstat(hidden, dir_fd=parent).st_mode):
        raise _not_ours(path, "is not a directory")
    _patiently(partial(_remove_marker, hidden, parent), path)
    return True


def _remove_marker(hidden: str, parent: int) -> None:
    with _open(hidden, parent) as directory, suppress(FileNotFoundError):
        os.unlink(MARKER, dir_fd=directory)
    os.rmdir(hidden, dir_fd=parent)


def _patiently(step: Callable[[], None], path: str) -> None:
    """Repeat ``step`` while files of the directory are in use. Raises WorkloadFailure."""
    patience_ends = time.monotonic() + _CLEAN_PATIENCE_S
    while True:
        try:
            step()
            return
        except OSError as error:
            # A file whose last close is still in progress leaves a hidden name behind for a moment.
            if error.errno not in _IN_USE or time.monotonic() > patience_ends:
                at = str(error.filename)
                at = at if at.startswith("/") else path
                raise WorkloadFailure(os_failure(error, "clean", at)) from None
            time.sleep(0.05)


def _empty(directory: int, path: str, keep: str = "") -> None:
    at = path
    try:
        with _open(".", directory, _LISTING) as listing, os.scandir(listing) as entries:
            members = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if entry.name != keep
            ]
        for name, is_directory in members:
            at = f"{path}/{name}"
            if is_directory:
                with _open(name, directory) as below:
                    _empty(below, at)
                os.rmdir(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
    except OSError as error:
        if not str(error.filename).startswith("/"):
            error.filename = at
        raise


def _open_marker(directory: int, name: str, flags: int) -> int:
    """An opener for ``open``; a pipe in place of the marker must not block."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=directory)


def _marker(directory: int, root: str) -> dict[str, object]:
    opener = partial(_open_marker, directory)
    try:
        with open(MARKER, encoding="utf-8", opener=opener) as marker:
            if not stat.S_ISREG(os.fstat(marker.fileno()).st_mode):
                raise _not_ours(root, "has a marker that is not a file")
            document = json.loads(marker.read(_MARKER_CHARACTERS))
    except OSError as error:
        path = os.path.join(root, MARKER)
        raise WorkloadFailure(os_failure(error, "check", path, "run-directory")) from None
    except (ValueError, RecursionError):
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
