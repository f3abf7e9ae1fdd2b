"""Guided setup of a first campaign for a kind of service: questions, and a draft from the answers.

A kind without starts can still be tuned: its campaign files are then written by hand.
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
    """One question.

    ``name``: also the name of its command-line option; ``text``: the question; ``why``: the purpose
    of the answer, one sentence. ``default``: the default answer; if None, a default is determined
    from the hosts, unless an answer is ``needed`` before anything can be determined.
    """

    name: str
    text: str
    why: str
    default: str | None = None
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that was made, with the reason in one sentence."""

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
        """Return the answer to a question, parsed by ``read``.

        ``read`` raises ValueError for an invalid answer. ``default`` replaces the question's own
        default; ``known``: one sentence of information already available. Raises SpecError if the
        answer is invalid and nobody can be asked again.
        """
        ...

    def doing(self, what: str) -> None:
        """Report an action that may take a moment."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft of a campaign file, from the answers.

    ``name``: of the campaign. ``section``: the value of ``testbed:``, as YAML on one line;
    ``description``: a comment for it. ``spaces``: by part, the keys of its section, as YAML.
    ``workload`` and ``wall_time``: suitable values. ``file``: the text of the testbed file that the
    section refers to, or None. ``choices``: what was chosen or detected, and why.
    """

    name: str
    section: str
    description: str
    spaces: Mapping[str, Mapping[str, str]]
    workload: str = "mixed-use"
    wall_time: str = "6h"
    file: str | None = None
    choices: Sequence[Choice] = ()


class Start(ABC):
    """One way to set up a first campaign.

    ``name``: an identifier; ``title``: a description; ``questions``: all that it may ask.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    questions: ClassVar[tuple[Question, ...]] = ()

    @property
    def needs_answers(self) -> bool:
        """Whether any of its questions requires an answer."""
        return any(question.needed for question in self.questions)

    def unavailable(self, state_directory: Path) -> str | None:
        """Why it is not possible on this machine; None if it is."""
        return None

    @abstractmethod
    def begin(self, interview: Interview, beside: Path, state_directory: Path) -> Draft:
        """Ask the questions and inspect the hosts, without changing anything.

        ``beside``: path of the future testbed file, next to the campaign file. Raises SpecError or
        TestbedError.
        """
