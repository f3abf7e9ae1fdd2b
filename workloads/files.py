"""The file plan: which files a set has, in which directory, of which size, derived from the seed.

Nothing here draws from ``random``: its sequences may differ between Python versions, and a client
host's Python need not be the controller's.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

from workloads.sizes import spread
from workloads.spec import FileSet

_SET_STRIDE = 1 << 32


@dataclass(frozen=True)
class PlannedFile:
    """One file; ``file_id`` is unique in the whole spec, ``directory`` counts from 0."""

    file_id: int
    directory: int
    size_bytes: int


def derive(seed: int, *labels: object) -> bytes:
    """Return 32 bytes that depend on the seed and the labels alone."""
    text = "\0".join(str(label) for label in (seed, *labels))
    return hashlib.sha256(text.encode()).digest()


def permutation(count: int, seed: int, *labels: object) -> list[int]:
    """Return 0..count-1 in an order that depends on the seed and the labels alone."""
    stream = hashlib.shake_256(derive(seed, "permutation", *labels)).digest(8 * count)
    keys = array("Q", stream)
    return sorted(range(count), key=lambda index: (keys[index], index))


def plan_files(fileset: FileSet, seed: int) -> tuple[PlannedFile, ...]:
    """Return the set's files by number; the sizes are the same for every seed but for order."""
    sizes = spread(fileset.sizes, fileset.files)
    order = permutation(fileset.files, seed, "sizes", fileset.name)
    return tuple(
        PlannedFile(
            file_id=fileset.index * _SET_STRIDE + number,
            directory=number % fileset.directories,
            size_bytes=sizes[rank],
        )
        for number, rank in enumerate(order)
    )


def directory_name(fileset: FileSet, directory: int) -> str:
    """Return the directory's name beneath the run directory."""
    return f"{fileset.name}.d{directory:05d}"


def file_name(file_id: int, renames: int) -> str:
    """Return the file's name in its directory after that many renames."""
    number = file_id % _SET_STRIDE
    return f"f{number:07d}.{renames}" if renames else f"f{number:07d}"


def absent_name(file_id: int) -> str:
    """Return a name beside the file's that no phase ever creates."""
    return f"n{file_id % _SET_STRIDE:07d}"
