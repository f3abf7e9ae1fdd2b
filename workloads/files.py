"""The file plan: the files of a set, their directories and sizes, derived from the seed.

Does not use ``random``: its sequences may differ between Python versions, and a client host may
run a different Python than the controller.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

from workloads.filesets import FileSet
from workloads.sizes import spread

SET_STRIDE = 1 << 32
"""Distance between the file ids of successive sets; extra files follow a set's planned ones."""


@dataclass(frozen=True)
class PlannedFile:
    """One file; ``file_id`` is unique in the whole spec, ``directory`` counts from 0."""

    file_id: int
    directory: int
    size_bytes: int


def derive(seed: int, *labels: object) -> bytes:
    """Return 32 bytes that depend only on the seed and the labels."""
    text = "\0".join(str(label) for label in (seed, *labels))
    return hashlib.sha256(text.encode()).digest()


def permutation(count: int, seed: int, *labels: object) -> list[int]:
    """Return 0..count-1 in an order that depends only on the seed and the labels."""
    stream = hashlib.shake_256(derive(seed, "permutation", *labels)).digest(8 * count)
    keys = array("Q", stream)
    return sorted(range(count), key=lambda index: (keys[index], index))


def plan_files(fileset: FileSet, seed: int) -> tuple[PlannedFile, ...]:
    """Return the set's files by number; the seed only changes the order of the sizes."""
    sizes = spread(fileset.sizes, fileset.files)
    order = permutation(fileset.files, seed, "sizes", fileset.name)
    return tuple(
        PlannedFile(
            file_id=fileset.index * SET_STRIDE + number,
            directory=number % fileset.directories,
            size_bytes=sizes[rank],
        )
        for number, rank in enumerate(order)
    )


def directory_name(fileset: FileSet, directory: int) -> str:
    """Return the directory's path beneath the run directory; see ``parent`` for trees."""
    if directory >= fileset.directories:
        return f"{fileset.name}.m{directory:07d}"
    above = parent(fileset, directory)
    if above is None:
        return f"{fileset.name}.d{directory:05d}"
    return f"{directory_name(fileset, above)}/d{directory:05d}"


def parent(fileset: FileSet, directory: int) -> int | None:
    """Return the parent directory in a tree with ``fanout`` children each, None at the top.

    A parent always has a lower number. Without a fanout all directories are siblings.
    """
    if not fileset.fanout or directory == 0 or directory >= fileset.directories:
        return None
    return (directory - 1) // fileset.fanout


def file_name(file_id: int, renames: int) -> str:
    """Return the file's name in its directory after that many renames."""
    number = file_id % SET_STRIDE
    return f"f{number:07d}.{renames}" if renames else f"f{number:07d}"


def absent_name(file_id: int) -> str:
    """Return a name in the file's directory that no phase ever creates."""
    return f"n{file_id % SET_STRIDE:07d}"
