"""What stands in the files: a header that names run, file and generation, then pool data.

The pool is generated once, before any clock runs, and does not compress. A file starts somewhere
in it, depending on seed, file and generation. The pool's length is a prime, so two blocks of a
file that any power-of-two boundary could have swapped never hold the same data.
"""

from __future__ import annotations

import hashlib
import struct

from workloads.files import derive
from workloads.spec import MAX_RECORD_BYTES

POOL_BYTES = 4_194_301
HEADER = struct.Struct("<8s32sQIIQ")
"""Magic, SHA-256 of the run id, file id, generation, reserved, size in bytes: 64 bytes."""

_MAGIC = b"fstune1\n"


class Content:
    """The expected bytes of every file of one run."""

    def __init__(self, seed: int, run_id: str) -> None:
        self._seed = seed
        self._run = hashlib.sha256(run_id.encode()).digest()
        pool = hashlib.shake_256(derive(seed, "pool")).digest(POOL_BYTES)
        # Long enough that the largest record is one slice wherever it starts.
        self._pool = memoryview((pool * 3)[: POOL_BYTES + MAX_RECORD_BYTES])

    def header(self, file_id: int, generation: int, size_bytes: int) -> bytes:
        """Return the file's first bytes: the header, cut to the size of a smaller file."""
        full = HEADER.pack(_MAGIC, self._run, file_id, generation, 0, size_bytes)
        return full[:size_bytes]

    def records(
        self, file_id: int, generation: int, size_bytes: int, record_bytes: int
    ) -> list[list[bytes | memoryview]]:
        """Return the file as records, each a list of buffers for ``os.writev``.

        Every record is ``record_bytes`` long but for the last; an empty file has none.
        """
        origin = int.from_bytes(derive(self._seed, "origin", file_id, generation)[:8], "little")
        header = self.header(file_id, generation, size_bytes)
        records: list[list[bytes | memoryview]] = []
        for start in range(0, size_bytes, record_bytes):
            end = min(start + record_bytes, size_bytes)
            parts: list[bytes | memoryview] = []
            if start < len(header):
                parts.append(header[start:end])
            if end > len(header):
                body = max(start, len(header))
                offset = (origin + body) % POOL_BYTES
                parts.append(self._pool[offset : offset + end - body])
            records.append(parts)
        return records
