"""Turns an argument list into the single string that an SSH server passes to a login shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def quote(argv: Sequence[str]) -> str:
    """The command line that a POSIX shell parses back into exactly ``argv``.

    Raises ValueError for an argument with a null character, which cannot be passed to a program.
    """
    refuse_null(argv)
    return shlex.join(argv)


def refuse_null(argv: Sequence[str]) -> None:
    """Raise ValueError when an argument contains a null character, or ``argv`` is empty."""
    if not argv:
        raise ValueError("a command without a program")
    for number, word in enumerate(argv):
        if "\0" in word:
            raise ValueError(f"argument {number} of {argv[0]!r} contains a null character")
