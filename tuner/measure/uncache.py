"""Drops a reference's files from the page cache of a client host, and verifies that they are gone.

Only references need it: each kind of service empties the caches of its own clients.

A standalone program, copied to a client host and run by its python3 (standard library only, 3.9):
``uncache.py DIRECTORY`` prints one JSON document, ``{"files": ..., "bytes": ..., "resident_bytes":
...}``. Pages that are still resident afterwards cannot be dropped, as on a file system in memory.
Names and attributes stay cached in any case: only dropping all caches of the host would evict them.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
#: Size of the pieces in which a file is mapped to check residency.
_WINDOW_BYTES = 1 << 30


def drop(directory: str) -> dict[str, int]:
    """Write back and drop everything below ``directory``; return counts, including what stayed.

    Raises OSError, also for anything but a regular file: this runs as root, and others may be able
    to write in the directory.
    """
    counts = {"files": 0, "bytes": 0, "resident_bytes": 0}
    with _open(directory, os.O_DIRECTORY) as top:
        # Only pages that were written back can be dropped.
        if _libc.syncfs(top) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
        _drop_below(top, counts)
    return counts


def _drop_below(directory: int, counts: dict[str, int]) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with _open(entry.name, os.O_DIRECTORY, directory) as inner:
                    _drop_below(inner, counts)
                continue
            if not entry.is_file(follow_symlinks=False):
                raise OSError(f"{entry.name} is not a file of the workload")
            with _open(entry.name, 0, directory) as file:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                size = os.fstat(file).st_size
                counts["files"] += 1
                counts["bytes"] += size
                counts["resident_bytes"] += _resident_bytes(file, size)


@contextmanager
def _open(name: str, flags: int, directory: int | None = None) -> Iterator[int]:
    """Open a file or directory itself: no link, and without waiting, as a pipe would."""
    flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        if not flags & os.O_DIRECTORY and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{name} is not a file of the workload")
        yield descriptor
    finally:
        os.close(descriptor)


def _resident_bytes(descriptor: int, size: int) -> int:
    """Bytes of a file that are in memory according to mincore(2), in whole pages."""
    resident = 0
    for start in range(0, size, _WINDOW_BYTES):
        length = min(_WINDOW_BYTES, size - start)
        # ctypes needs a writable mapping: a private one, which is never written to.
        with mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=start) as window:
            pages = (ctypes.c_ubyte * (-(-length // mmap.PAGESIZE)))()
            first = ctypes.c_char.from_buffer(window)
            status = _libc.mincore(ctypes.byref(first), ctypes.c_size_t(length), pages)
            del first
            if status != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            resident += sum(page & 1 for page in pages)
    return resident * mmap.PAGESIZE


if __name__ == "__main__":
    print(json.dumps(drop(sys.argv[1])))
