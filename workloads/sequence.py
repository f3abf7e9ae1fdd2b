"""What each operation needs of a file set and what it leaves behind.

Replaying a spec's phases with ``advance`` tells, before anything runs, whether the order makes
sense, and in any later stage what names and generations the earlier stages left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

OPERATIONS = (
    "mkdir",
    "create",
    "read",
    "stat",
    "negative-stat",
    "list",
    "rename",
    "unlink",
    "rmdir",
)
REPEATABLE = ("read", "stat", "negative-stat", "list")
"""Operations that change nothing, so that a phase may make several passes."""

PER_DIRECTORY = ("mkdir", "list", "rmdir")
"""Operations counted once a directory; the others count once a file."""


@dataclass(frozen=True)
class FileSetState:
    """A file set between two phases.

    ``generation`` counts how often its files were created (0: never), ``renames`` how often
    renamed since then.
    """

    directories: bool = False
    files: bool = False
    generation: int = 0
    renames: int = 0


class OutOfOrder(ValueError):
    """The operation cannot happen in that state; the text says what is missing."""


def advance(operation: str, state: FileSetState) -> FileSetState:
    """Return the state after ``operation``; raises OutOfOrder when it cannot happen."""
    if operation == "mkdir":
        if state.directories:
            raise OutOfOrder("the directories exist already")
        return replace(state, directories=True)
    if not state.directories:
        raise OutOfOrder("the directories do not exist yet (no mkdir before it)")
    if operation == "create":
        if state.files:
            raise OutOfOrder("the files exist already")
        return replace(state, files=True, generation=state.generation + 1, renames=0)
    if operation == "rmdir":
        if state.files:
            raise OutOfOrder("the directories still hold files (no unlink before it)")
        return replace(state, directories=False)
    if operation in ("negative-stat", "list"):
        return state
    if not state.files:
        raise OutOfOrder("the files do not exist at this point (no create before it)")
    if operation == "rename":
        return replace(state, renames=state.renames + 1)
    if operation == "unlink":
        return replace(state, files=False)
    return state
