"""The spaces that can be used by name."""

from __future__ import annotations

from search_spaces.loading import load
from search_spaces.lookup import leave_out, names, own_names
from search_spaces.model import SpaceError
from search_spaces.space import Space


def installed() -> dict[str, Space]:
    """The spaces that are installed, by name in alphabetical order.

    Another package's space that is not valid is skipped with a warning. Raises SpaceError for one
    of fstune's own.
    """
    spaces: dict[str, Space] = {}
    for name in names():
        try:
            space = load(name)
            if space.name != name:
                raise SpaceError(f"name: {space.name!r} is not the name of its file")
            spaces[name] = space
        except SpaceError as problem:
            if name in own_names():
                raise
            leave_out(name, problem)
    return spaces
