"""Questions of a command, answered by its options or by a person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from tuner.cli.say import say
from tuner.errors import SpecError
from tuner.services.start import Question

T = TypeVar("T")


class Asker:
    """Asks what no option has answered. ``answers``: those of options, by question; ``person``:
    there is somebody to ask, otherwise defaults are taken.
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
                raise SpecError(f"--{question.name}: missing: {question.asks}{hint}".rstrip("."))
            answer = fallback
        if answer is not None:
            try:
                return read(answer)
            except ValueError as problem:
                raise SpecError(f"--{question.name}: {problem}") from None
        return self._of_person(question, read, fallback, known)

    def doing(self, what: str) -> None:
        """See Interview.doing."""
        say(f"fstune: {what}", err=True)

    def sure(self, asks: str) -> bool:
        """Whether a person says yes; False where there is none."""
        if not self._person:
            return False
        say(f"{asks} [y/N] ", nl=False)
        return _line().lower() in ("y", "yes")

    def _of_person(
        self, question: Question, read: Callable[[str], T], default: str | None, known: str
    ) -> T:
        say(f"\n{question.asks}\n  {' '.join(filter(None, (known, question.why)))}")
        while True:
            say("> " if default is None else f"[{default}] > ", nl=False)
            line = _line() or default
            if line is None:
                continue
            try:
                return read(line)
            except ValueError as problem:
                say(f"  {problem}")


def _line() -> str:
    """What is typed on one line. Raises SpecError when the input has ended."""
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        raise SpecError("standard input ended before all was answered; nothing was written")
    return line.strip()
