"""Turns the parameters of a surface into questions for peers, and answers into configurations.

A configuration is drawn as everywhere in fstune: the first question about a parameter is whether to
set it, the second is its value, and values that violate a constraint are moved until they satisfy
it. So every peer proposes valid configurations without knowing the constraints.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Ask, Value, draw
from tuner.model import Configuration
from tuner.services.simulated.testbed import FACTS
from tuner.simulate.surface import Surface

#: Suffix of the question whether to set a parameter.
WHETHER = "?"
_LOOKS = 100


@dataclass(frozen=True, slots=True)
class Question:
    """One question: an integer in ``low..high``, log-scaled if ``log``, or one of ``options``."""

    name: str
    low: int = 0
    high: int = 0
    log: bool = False
    options: tuple[Value, ...] = ()

    @property
    def parent(self) -> str:
        """The question that must be answered with true for this one to apply, "" if none."""
        return "" if self.name.endswith(WHETHER) else self.name + WHETHER


def questions(surface: Surface) -> tuple[Question, ...]:
    """Return every question that drawing a configuration of a surface may ask, in order."""
    by_name: dict[str, Question] = {}
    chance = random.Random(0)
    for _ in range(_LOOKS):
        ask = _Noting(by_name, chance)
        configuration_of(surface, ask)
    return tuple(by_name.values())


def configuration_of(surface: Surface, ask: NamedAsk) -> Configuration:
    """Return the valid configuration that these answers give."""
    values: dict[str, Value] = {}
    for part, space in surface.spaces.items():
        ask.part = part
        part_values = draw(space, ask, FACTS, surface.baseline.part(part))
        values |= {f"{part}.{name}": value for name, value in part_values.items()}
    return Configuration.of(values)


def configuration(surface: Surface, answers: Mapping[str, Value]) -> Configuration:
    """Return the valid configuration that these answers give; without an answer, leave it unset."""
    return configuration_of(surface, _FixedAnswers(answers))


class NamedAsk(Ask):
    """An ``Ask`` that prefixes question names with the part."""

    part = ""

    def full_name(self, name: str) -> str:
        """Return the full name of a question."""
        return f"{self.part}.{name}"


class _FixedAnswers(NamedAsk):
    """Gives prepared answers."""

    def __init__(self, answers: Mapping[str, Value]) -> None:
        self.answers = answers

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """See Ask.integer."""
        return min(high, max(low, int(self.answers.get(self.full_name(name), low))))

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """See Ask.choice."""
        answer = self.answers.get(self.full_name(name), options[0])
        return answer if answer in options else options[0]


class _Noting(NamedAsk):
    """Answers at random, and records each question."""

    def __init__(self, questions: dict[str, Question], chance: random.Random) -> None:
        self._questions = questions
        self._chance = chance

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """See Ask.integer."""
        full = self.full_name(name)
        self._questions.setdefault(full, Question(full, low, high, log))
        return self._chance.randint(low, high)

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """See Ask.choice."""
        full = self.full_name(name)
        self._questions.setdefault(full, Question(full, options=tuple(options)))
        return self._chance.choice(list(options))
