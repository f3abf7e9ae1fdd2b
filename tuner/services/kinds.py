"""The kinds of services there are: those of fstune, and those of other installed packages.

A package offers a kind as an entry point of the group ``fstune.services`` that names a ``Kind``.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from tuner.services.kind import Kind, Way
from tuner.services.openafs.kind import OPENAFS
from tuner.services.simulated.kind import SIMULATED

_GROUP = "fstune.services"


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, fstune's own first. Raises ValueError when two of them use the same key."""
    found = (OPENAFS, SIMULATED, *(entry.load() for entry in entry_points(group=_GROUP)))
    keys = [way.key for kind in found for way in kind.ways]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"two kinds of services use the key {twice[0]!r} of a testbed")
    return found


@cache
def ways() -> dict[str, tuple[Kind, Way[Any]]]:
    """Every way to name a testbed, by its key, with its kind."""
    return {way.key: (kind, way) for kind in kinds() for way in kind.ways}


def part_order() -> tuple[str, ...]:
    """The parts of all kinds, each kind's in the order in which they are brought up."""
    return tuple(dict.fromkeys(part for kind in kinds() for part in kind.parts or ()))


def offered() -> dict[str, str]:
    """What a service can offer over HTTP by its key alone, with its title."""
    return {key: way.title for key, (_, way) in ways().items() if way.title}
