"""The first steps with a kind of service: the questions, and what follows from the answers.

A kind that offers no start can be tuned all the same: its campaign files are written by hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask. ``name``: of its option, too; ``asks``: the question; ``why``: what the
    answer is for, one sentence. ``default``: the answer where none is given; without one it is what
    is found out meanwhile, unless the answer is ``needed`` to find out anything.
    """

    name: str
    asks: str
    why: str
    default: str | None = None
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice, with the reason in one sentence."""

    what: str
    value: str
    why: str


class Interview(Protocol):
    """The source of answers: a person at a terminal, or the options of a command."""

    def ask(
        self,
        question: Question,
        read: Callable[[str], T],
        *,
        default: str | None = None,
        known: str = "",
    ) -> T:
        """The answer to a question, as ``read`` understands it; that raises ValueError for one that
        cannot be used. ``default``: instead of the question's own; ``known``: what has been found
        out, one sentence. Raises SpecError where nobody can be asked for a better answer.
        """
        ...

    def doing(self, what: str) -> None:
        """Say what is being done, where that may take a moment."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft of a campaign file, from the answers.

    ``name``: for the campaign. ``section``: what stands under ``testbed:`` in its file, as YAML on
    one line; ``says``: a comment for it. ``spaces``: of each part the keys of its section, as YAML.
    ``workload`` and ``wall_time``: what suits it. ``file``: the text of a testbed file that the
    section names, None without one. ``choices``: what was chosen or found, and why.
    """

    name: str
    section: str
    says: str
    spaces: Mapping[str, Mapping[str, str]]
    workload: str = "mixed-use"
    wall_time: str = "6h"
    file: str | None = None
    choices: Sequence[Choice] = ()


class Start(ABC):
    """One way to begin. ``name``: a word for it; ``title``: what it is; ``questions``: all that it
    may ask.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    questions: ClassVar[tuple[Question, ...]] = ()

    @property
    def needs_answers(self) -> bool:
        """Whether it cannot do without an answer."""
        return any(question.needed for question in self.questions)

    def unavailable(self, state_directory: Path) -> str | None:
        """Why it is not possible on this machine, None when it is."""
        return None

    @abstractmethod
    def begin(self, interview: Interview, beside: Path, state_directory: Path) -> Draft:
        """Ask and look; nothing is changed. ``beside``: where the testbed file will be, beside the
        campaign file. Raises SpecError or TestbedError.
        """
