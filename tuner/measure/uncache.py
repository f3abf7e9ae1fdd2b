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
import sys

_libc = ctypes.CDLL(None, use_errno=True)
#: Size of the pieces in which a file is mapped to check residency.
_WINDOW_BYTES = 1 << 30


def drop(directory: str) -> dict[str, int]:
    """Write back and drop everything below ``directory``; return counts, including what stayed.

    Raises OSError.
    """
    _write_back(directory)
    counts = {"files": 0, "bytes": 0, "resident_bytes": 0}
    for parent, _, names in os.walk(directory, onerror=_raise):
        for name in names:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                size = os.fstat(descriptor).st_size
                counts["files"] += 1
                counts["bytes"] += size
                counts["resident_bytes"] += _resident_bytes(descriptor, size)
            finally:
                os.close(descriptor)
    return counts


def _write_back(directory: str) -> None:
    """Flush the file system, since only pages that were written back can be dropped."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
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


def _raise(error: OSError) -> None:
    raise error


if __name__ == "__main__":
    print(json.dumps(drop(sys.argv[1])))
