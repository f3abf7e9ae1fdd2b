"""Writing files: each is written completely or not at all, and replaces another only on request.

Others may be able to write in the directory, and put links in the place of what is written there:
whatever was created is used by its descriptor, not by its name.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tuner.errors import ConflictError, StoreError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: Opening a pipe that somebody else has put there would wait otherwise.
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def new_file(file: Path, *, private: bool = True) -> Iterator[BinaryIO]:
    """Open a file that becomes ``file`` at the end, unless the body fails. ``private``: only its
    owner may read it, whatever the umask.

    Raises ConflictError when the file exists, StoreError when it cannot be written.
    """
    if os.path.lexists(file):
        raise ConflictError(f"{file} exists; name a new file")
    part = None
    try:
        # An unpredictable name, and only if it is new.
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=file.parent)
        part = Path(name)
        with os.fdopen(descriptor, "w+b") as output:
            if not private:
                umask = os.umask(0o077)
                os.umask(umask)
                os.fchmod(descriptor, 0o666 & ~umask)
            yield output
            output.flush()
            _put(output, file)
    except FileExistsError:
        raise ConflictError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{file} cannot be written: {problem.strerror}") from problem
    finally:
        if part is not None:
            with suppress(OSError):  # somebody else's, if it is not the file any more
                part.unlink()


@contextmanager
def prepared_files(texts: Mapping[str, str], directory: Path) -> Iterator[Path]:
    """Create a temporary directory within ``directory`` that has files with these texts, by name.
    Raises StoreError when they cannot be written.
    """
    with _writing(directory):
        place = tempfile.mkdtemp(prefix=".fstune-", dir=directory)
        descriptor = os.open(place, _DIRECTORY)
    try:
        with _writing(directory):
            for name, text in texts.items():
                new = os.open(name, _NEW, 0o666, dir_fd=descriptor)
                with os.fdopen(new, "w", encoding="utf-8") as output:
                    output.write(text)
        yield Path(place)
    finally:
        for name in texts:
            with suppress(OSError):
                os.unlink(name, dir_fd=descriptor)
        os.close(descriptor)
        with suppress(OSError):
            os.rmdir(place)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise StoreError(f"{directory}: cannot be written: {problem.strerror}") from problem


def put_in_place(prepared: Path, files: Mapping[str, bool], directory: Path) -> None:
    """Move files from a directory of ``prepared_files`` to ``directory``; stop signals cannot
    interrupt it halfway. ``files``: by name, whether an existing file may be replaced.

    Raises ConflictError when a file exists that may not be replaced, StoreError when they cannot be
    written.
    """
    stops = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        for name, may_replace in files.items():
            if not may_replace and os.path.lexists(directory / name):
                raise ConflictError(f"{directory / name} exists; name a new file")
        descriptor = os.open(prepared, _DIRECTORY)
        try:
            for name, may_replace in files.items():
                if may_replace:
                    os.replace(name, directory / name, src_dir_fd=descriptor)
                else:
                    with os.fdopen(os.open(name, _OLD, dir_fd=descriptor), "rb") as whole:
                        _put(whole, directory / name)
        finally:
            os.close(descriptor)
    except FileExistsError as problem:
        file = problem.filename2 or problem.filename
        raise ConflictError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{directory}: cannot be written: {problem.strerror}") from problem
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def put_new(part: Path, file: Path) -> None:
    """Make a complete file, at a path that nobody else can change, available as ``file``. Raises
    FileExistsError rather than replace another one, OSError when it cannot be written.
    """
    with part.open("rb") as whole:
        _put(whole, file)


def others_can_change(directory: Path) -> bool:
    """Whether another user than root can replace what is in a directory, or the directory. In one
    with the sticky bit, such as /tmp, users cannot replace files of others.
    """
    whole = directory.resolve()
    for status in (each.stat() for each in (whole, *whole.parents)):
        writable = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if writable or status.st_uid not in (0, os.geteuid()):
            return True
    return False


def _put(whole: BinaryIO, file: Path) -> None:
    """Make a complete file available as ``file``; unlike a rename, never replace another one."""
    descriptor = whole.fileno()
    try:
        # Any src_dir_fd makes Python call linkat(2); link(2) does not follow this link.
        os.link(f"/proc/self/fd/{descriptor}", file, src_dir_fd=descriptor)
    except FileExistsError:
        raise
    except OSError:
        # AFS has no hard links across directories, other file systems have none at all.
        _copy(whole, file)


def _copy(whole: BinaryIO, file: Path) -> None:
    descriptor = os.open(file, _NEW, os.fstat(whole.fileno()).st_mode & 0o777)
    with removed_on_failure(file), os.fdopen(descriptor, "wb") as output:
        whole.seek(0)
        shutil.copyfileobj(whole, output)


@contextmanager
def removed_on_failure(file: Path) -> Iterator[None]:
    """Remove a file, if it exists, when the body that writes it fails or is interrupted."""
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise
