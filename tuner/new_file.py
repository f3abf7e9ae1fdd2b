"""Writing files: each is written completely or not at all, and replaces another only on request."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tuner.errors import ConflictError, StoreError


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
        # An unpredictable name, and only if it is new: others may be able to write in this
        # directory, too.
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=file.parent)
        part = Path(name)
        with os.fdopen(descriptor, "w+b") as output:
            if not private:
                umask = os.umask(0o077)
                os.umask(umask)
                os.fchmod(descriptor, 0o666 & ~umask)
            yield output
        _put(part, file)
    except FileExistsError:
        raise ConflictError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{file} cannot be written: {problem.strerror}") from problem
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


@contextmanager
def prepared_files(texts: Mapping[str, str], directory: Path) -> Iterator[Path]:
    """Create a temporary directory within ``directory`` that has files with these texts, by name.
    Raises StoreError when they cannot be written.
    """
    with _writing(directory):
        place = tempfile.TemporaryDirectory(prefix=".fstune-", dir=directory)
    with place as name:
        with _writing(directory):
            for file, text in texts.items():
                (Path(name) / file).write_text(text, encoding="utf-8")
        yield Path(name)


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
        for name, may_replace in files.items():
            if may_replace:
                os.replace(prepared / name, directory / name)
            else:
                _put(prepared / name, directory / name)
    except FileExistsError as problem:
        file = problem.filename2 or problem.filename
        raise ConflictError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{directory}: cannot be written: {problem.strerror}") from problem
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _put(part: Path, file: Path) -> None:
    """Make a complete file available as ``file``; unlike a rename, never replace another one."""
    try:
        os.link(part, file, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        # AFS has no hard links across directories, other file systems have none at all.
        _copy(part, file)


def _copy(part: Path, file: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(file, flags, part.stat().st_mode & 0o777)
    with (
        removed_on_failure(file),
        os.fdopen(descriptor, "wb") as output,
        part.open("rb") as whole,
    ):
        shutil.copyfileobj(whole, output)


@contextmanager
def removed_on_failure(file: Path) -> Iterator[None]:
    """Remove a file, if it exists, when the body that writes it fails or is interrupted."""
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise
