"""File contents: a header that identifies run, file and generation, followed by pool data.

The pool is generated once, before any clock starts, and is incompressible. Each file starts at an
offset in it that depends on seed, file and generation. The pool's length is a prime, so two blocks
of a file that could have been swapped at a power-of-two boundary never hold the same data. A
compressible file set uses a pool in which the last part of every 4 KiB is zeros.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

from workloads.files import derive
from workloads.filesets import MAX_RECORD_BYTES
from workloads.image import Image

POOL_BYTES = 4_194_301
HEADER = struct.Struct("<8s32sQIIQ")
"""Magic, SHA-256 of the run id, file id, generation, reserved, size in bytes: 64 bytes."""

Buffers = list["bytes | memoryview"]

_MAGIC = b"fstune1\n"
_BLOCK_BYTES = 4096


class Content:
    """The expected bytes of every file of one run."""

    def __init__(self, seed: int, run_id: str) -> None:
        self._seed = seed
        self._run = hashlib.sha256(run_id.encode()).digest()
        self._random = hashlib.shake_256(derive(seed, "pool")).digest(POOL_BYTES)
        self._pools: dict[int, memoryview] = {}
        self._origins: dict[tuple[int, int], int] = {}
        self.make_pool(0)

    def make_pool(self, repeated_percent: int) -> memoryview:
        """Return the pool with that compressibility, created on first use."""
        if repeated_percent not in self._pools:
            pool = bytearray(self._random)
            zeros = _BLOCK_BYTES * repeated_percent // 100
            for end in range(_BLOCK_BYTES, POOL_BYTES + 1, _BLOCK_BYTES):
                pool[end - zeros : end] = bytes(zeros)
            # Long enough for the largest record to be a single slice at any offset.
            long = (bytes(pool) * 3)[: POOL_BYTES + MAX_RECORD_BYTES]
            self._pools[repeated_percent] = memoryview(long)
        return self._pools[repeated_percent]

    def header(self, file_id: int, generation: int, size_bytes: int) -> bytes:
        """Return the file's header, truncated if the file is smaller than it."""
        full = HEADER.pack(_MAGIC, self._run, file_id, generation, 0, size_bytes)
        return full[:size_bytes]

    def parts(self, image: Image, start: int, end: int) -> Buffers:
        """Return bytes ``start`` to ``end`` as buffers for ``os.writev``; at most one record."""
        pool = self._pools[image.repeated_percent]
        file_id = image.file_id
        parts: Buffers = []
        extents = image.extents if len(image.extents) == 1 else image.between(start, end)
        for extent in extents:
            at = start if start > extent.start else extent.start
            upto = end if end < extent.end else extent.end
            if at < HEADER.size and extent.labelled_bytes:
                header = self.header(file_id, extent.generation, extent.labelled_bytes)
                parts.append(header[at:upto])
                at = min(upto, max(at, len(header)))
            if at < upto:
                offset = (self._origin(file_id, extent.generation) + at) % POOL_BYTES
                parts.append(pool[offset : offset + upto - at])
        return parts

    def records(self, image: Image, start: int, end: int, record_bytes: int) -> Iterator[Buffers]:
        """Yield bytes ``start`` to ``end`` in records; the last may be shorter."""
        if len(image.extents) == 1 and end - start > record_bytes:
            # The common case: compute what all records share only once.
            yield self.parts(image, start, start + record_bytes)
            start += record_bytes
            while start < HEADER.size:
                yield self.parts(image, start, min(start + record_bytes, end))
                start += record_bytes
            pool = self._pools[image.repeated_percent]
            offset = self._origin(image.file_id, image.extents[0].generation) + start
            while start < end:
                offset %= POOL_BYTES
                length = record_bytes if end - start > record_bytes else end - start
                yield [pool[offset : offset + length]]
                offset += length
                start += length
            return
        for at in range(start, end, record_bytes):
            yield self.parts(image, at, min(at + record_bytes, end))

    def _origin(self, file_id: int, generation: int) -> int:
        key = (file_id, generation)
        origin = self._origins.get(key)
        if origin is None:
            digest = derive(self._seed, "origin", file_id, generation)
            origin = self._origins[key] = int.from_bytes(digest[:8], "little")
        return origin
