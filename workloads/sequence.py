"""The state of a file set that each operation requires, and the state that it leaves.

Replaying a spec's phases with ``advance`` checks, before anything runs, that their order makes
sense.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PER_DIRECTORY = ("mkdir", "list", "walk", "rmdir")
"""Operations performed once per directory."""

_OF_FILES = (
    *("read", "random-read", "read-modify-write", "rewrite", "append", "random-write", "truncate"),
    *("fsync", "stat", "access", "chmod", "flock", "link", "rename"),
)
_LOOKING = ("read", "random-read", "stat", "access", "negative-stat", "list", "walk")
PER_FILE = ("create", "negative-stat", *_OF_FILES, "unlink")
"""Operations performed once per file."""

POSTMARK = ("postmark-create", "postmark-transactions", "postmark-delete")
TREE = ("extract", "remove-tree")
OPERATIONS = (*PER_DIRECTORY, *PER_FILE, "mix", *TREE, *POSTMARK)

REPEATABLE = ("negative-stat", "list", "walk", *(name for name in _OF_FILES if name != "truncate"))
"""Operations that can be repeated, so that a phase may make several passes."""


@dataclass(frozen=True)
class FileSetState:
    """The state of a file set between two phases.

    ``postmark``: whether the files are postmark's, between its first and its last phase.
    """

    directories: bool = False
    files: bool = False
    postmark: bool = False


class OutOfOrder(ValueError):
    """The operation is impossible in that state; the message says what is missing."""


def advance(operation: str, state: FileSetState) -> FileSetState:
    """Return the state after ``operation``; raises OutOfOrder if it is impossible in ``state``."""
    if operation in ("mkdir", "extract"):
        if state.directories:
            raise OutOfOrder("the directories exist already")
        return replace(state, directories=True, files=operation == "extract")
    if not state.directories:
        raise OutOfOrder("the directories do not exist yet (no mkdir before it)")
    if operation in ("create", "postmark-create"):
        if state.files:
            raise OutOfOrder("the files exist already")
        return replace(state, files=True, postmark=operation == "postmark-create")
    if operation == "rmdir":
        if state.files:
            raise OutOfOrder("the directories still hold files (no unlink before it)")
        return replace(state, directories=False)
    if operation in ("negative-stat", "list", "walk"):
        return state
    if not state.files:
        raise OutOfOrder("the files do not exist at this point (no create before it)")
    if state.postmark and operation not in (*POSTMARK, *_LOOKING):
        raise OutOfOrder("between postmark's phases nothing else may change the files")
    if operation in POSTMARK and not state.postmark:
        raise OutOfOrder("the files are not postmark's (no postmark-create before it)")
    if operation in ("unlink", "postmark-delete"):
        return replace(state, files=False, postmark=False)
    if operation == "remove-tree":
        return FileSetState()
    return state
