"""Asks the questions of a command that its options leave open, at the terminal.

The questions of ``fstune init`` are in ``tuner.services.start``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from tuner.cli.say import say
from tuner.errors import SpecError
from tuner.services.start import Question

T = TypeVar("T")


class Asker:
    """Asks the questions that no option has answered.

    ``answers``: answers given as options, by question; ``person``: there is a user to ask,
    otherwise defaults are used.
    """

    def __init__(self, answers: Mapping[str, str], *, person: bool) -> None:
        self._answers = answers
        self._person = person

    def ask(
        self,
        question: Question,
        read: Callable[[str], T],
        *,
        default: str | None = None,
        known: str = "",
    ) -> T:
        """See Interview.ask."""
        fallback = question.default if default is None else default
        answer = self._answers.get(question.name)
        if answer is None and not self._person:
            if fallback is None:
                hint = f"; {known}" if known else ""
                raise SpecError(f"--{question.name}: missing: {question.text}{hint}".rstrip("."))
            answer = fallback
        if answer is not None:
            try:
                return read(answer)
            except ValueError as problem:
                raise SpecError(f"--{question.name}: {problem}") from None
        return self._of_person(question, read, fallback, known)

    def is_answered(self, question: Question) -> bool:
        """Whether an option answers the question."""
        return question.name in self._answers

    def doing(self, what: str) -> None:
        """See Interview.doing."""
        say(f"fstune: {what}", err=True)

    def sure(self, question: str) -> bool:
        """Whether the user confirms; False if there is nobody to ask."""
        if not self._person:
            return False
        return _line(f"{question} [y/N] ").lower() in ("y", "yes")

    def _of_person(
        self, question: Question, read: Callable[[str], T], default: str | None, known: str
    ) -> T:
        gap = " " if known and not known[-1].isspace() else ""
        say(f"\n{question.text}\n  {known}{gap}{question.why}")
        while True:
            line = _line("> " if default is None else f"[{default}] > ") or default
            if line is None:
                continue
            try:
                return read(line)
            except ValueError as problem:
                say(f"  {problem}")


def _line(prompt: str) -> str:
    """Read one line from the user. Raises SpecError at the end of input."""
    try:
        say(prompt, nl=False)
        sys.stdout.flush()
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        say("")  # what follows begins on a line of its own
        raise
    if not line:
        say("")
        raise SpecError("standard input ended before the last question; nothing was written")
    return line.strip()
