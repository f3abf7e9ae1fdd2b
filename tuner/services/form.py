"""The interface of formats of configurations, and the only place where words of options are quoted.

A kind of service brings the formats of its own programs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.errors import SpecError

#: Words that need no quoting where text is split at blanks and not interpreted otherwise.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@%-]+")
_SWITCH = re.compile(r"-(?!\d)")


@dataclass(frozen=True, slots=True)
class Part:
    """The options of one program, as the words of its command line."""

    name: str
    program: str
    words: tuple[str, ...]


class Format(Protocol):
    """A text format for the options of a program.

    ``name``: its name on the command line; ``about``: a phrase that describes it; ``where``: the
    file it belongs in, or what runs it; ``programs``: those whose options it can hold; ``comment``:
    what begins a comment, "" if it has none; ``together``: whether one text may hold the options of
    several programs; ``mind``: what to check before using it.
    """

    name: str
    about: str
    where: str
    programs: frozenset[str]
    comment: str
    together: bool
    mind: str

    def holds(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return those of the words that it can hold."""
        ...

    def write(self, part: Part) -> str:
        """Return the text, ending with a newline.

        Raises SpecError for a word that it cannot represent exactly.
        """
        ...

    def read(self, text: str) -> tuple[str, ...]:
        """Return the words in a text produced by ``write``."""
        ...


class Whole:
    """A format that can hold every option of its programs."""

    together = True
    mind = "it replaces all options there; add any others that you have"

    def holds(self, words: Sequence[str]) -> tuple[str, ...]:
        """See Format.holds."""
        return tuple(words)


def plain(words: Iterable[str]) -> str:
    """Join the words with blanks, for programs that split there and do not support quoting.

    Raises SpecError for a word that would not be read back unchanged.
    """
    flags = tuple(words)
    for word in flags:
        if not _PLAIN.fullmatch(word):
            raise SpecError(f"{word!r} cannot be written without quotes; choose another format")
    return " ".join(flags)


def shell(words: Iterable[str]) -> str:
    """Join the words, quoted for a POSIX shell."""
    return shlex.join(words)


def pairs(words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each option with its values. A word that is no switch and follows none is one too."""
    options: list[tuple[str, tuple[str, ...]]] = []
    for word in words:
        if not options or not _SWITCH.match(options[-1][0]) or _SWITCH.match(word):
            options.append((word, ()))
        else:
            name, values = options[-1]
            options[-1] = name, (*values, word)
    return options
