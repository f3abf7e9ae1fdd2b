"""What a format is, and the one place where words of options are quoted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.errors import SpecError

FILESERVER, KERNEL_CLIENT, FUSE_CLIENT = "dafileserver", "afsd", "afsd.fuse"
SYSCTL = "sysctl"

#: Words that mean themselves wherever they are split at blanks and nothing else is done to them.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@%-]+")
_SWITCH = re.compile(r"-(?!\d)")


@dataclass(frozen=True, slots=True)
class Part:
    """The options of one program: the words, as its command line has them."""

    component: str
    program: str
    words: tuple[str, ...]


class Format(Protocol):
    """A way of writing down the options of a program.

    ``name``: what it is called on the command line; ``about``: what it is, a phrase; ``where``: in
    which file it goes, or what runs it; ``programs``: those whose options it can hold;
    ``comment``: what begins a comment in it, "" when it has none; ``together``: whether one text
    may hold the options of several programs; ``mind``: what to mind before it is used.
    """

    name: str
    about: str
    where: str
    programs: frozenset[str]
    comment: str
    together: bool
    mind: str

    def holds(self, words: Sequence[str]) -> tuple[str, ...]:
        """Those of the words that it can hold."""
        ...

    def write(self, part: Part) -> str:
        """The text, ending with a newline. SpecError for a word that it cannot hold as it is."""
        ...

    def read(self, text: str) -> tuple[str, ...]:
        """The words in a text that ``write`` wrote."""
        ...


class Whole:
    """A format that can hold every option of its programs."""

    together = True
    mind = "it takes the place of all options there; add those that you have besides"

    def holds(self, words: Sequence[str]) -> tuple[str, ...]:
        """See Format.holds."""
        return tuple(words)


def plain(words: Iterable[str]) -> str:
    """The words with blanks between them, for what splits there and knows no quotes.

    Raises SpecError for a word that would not come out as it is.
    """
    flags = tuple(words)
    for word in flags:
        if not _PLAIN.fullmatch(word):
            raise SpecError(f"{word!r} cannot stand where nothing is quoted; choose another format")
    return " ".join(flags)


def shell(words: Iterable[str]) -> str:
    """The words quoted for a POSIX shell."""
    return shlex.join(words)


def pairs(words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Each option with its values."""
    options: list[tuple[str, tuple[str, ...]]] = []
    for word in words:
        if _SWITCH.match(word) or not options:
            options.append((word, ()))
        else:
            name, values = options[-1]
            options[-1] = name, (*values, word)
    return options
