"""Configurations as the parameters of Optuna's trials, and back.

Each Optuna parameter is a question of ``search_spaces.draw``: ``part.name?``, whether to set it,
and ``part.name``, its value. A parameter whose condition does not hold is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from search_spaces import Ask, answers, draw, questions
from tuner.model import Configuration, Value
from tuner.propose.encoding import Tunable


class _AskPart(Ask, Protocol):
    part: str


@dataclass(slots=True)
class AskTrial:
    """Lets an Optuna trial answer the questions of ``draw``."""

    trial: optuna.Trial
    part: str = ""

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """See Ask.integer."""
        return self.trial.suggest_int(f"{self.part}.{name}", low, high, log=log)

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """See Ask.choice."""
        value = self.trial.suggest_categorical(f"{self.part}.{name}", tuple(options))
        assert isinstance(value, (int, bool, str))
        return value


@dataclass(slots=True)
class Replay:
    """Gives prepared answers, and records the distributions that they are drawn from.

    ``faithful``: whether no answer so far was missing or outside its range.
    """

    answers: Mapping[str, Value] = field(default_factory=dict)
    part: str = ""
    parameters: dict[str, Value] = field(default_factory=dict)
    distributions: dict[str, BaseDistribution] = field(default_factory=dict)
    faithful: bool = True

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """See Ask.integer."""
        key = f"{self.part}.{name}"
        answer = int(self.answers.get(key, low))
        value = min(max(answer, low), high)
        self.distributions[key] = IntDistribution(low, high, log=log)
        self._give(key, value, value == answer)
        return value

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """See Ask.choice."""
        key = f"{self.part}.{name}"
        answer = self.answers.get(key, options[0])
        value = answer if answer in options else options[0]
        self.distributions[key] = CategoricalDistribution(tuple(options))
        self._give(key, value, value == answer)
        return value

    def _give(self, key: str, value: Value, as_it_was: bool) -> None:
        self.parameters[key] = value
        self.faithful &= as_it_was and key in self.answers


def ask(asking: _AskPart, tunables: Mapping[str, Tunable]) -> Configuration:
    """Return the valid configuration of all parts that the answers of ``asking`` lead to."""
    values: dict[str, Value] = {}
    for part, tunable in tunables.items():
        asking.part = part
        parameters = draw(tunable.space, asking, tunable.facts, tunable.baseline)
        values |= {f"{part}.{name}": value for name, value in parameters.items()}
    return Configuration.of(values)


def replay(configuration: Configuration, tunables: Mapping[str, Tunable]) -> Replay:
    """Return the answers that lead to a configuration, or as near to it as the spaces allow."""
    prepared: dict[str, Value] = {}
    for part, tunable in tunables.items():
        own = answers(tunable.space, configuration.part(part), tunable.facts, tunable.baseline)
        prepared |= {f"{part}.{name}": answer for name, answer in own.items()}
    return Replay(prepared)


def distributions(tunables: Mapping[str, Tunable]) -> dict[str, BaseDistribution]:
    """Return the distribution of every question that may be asked, by name."""
    every = Replay()
    for part, tunable in tunables.items():
        every.part = part
        questions(tunable.space, every)
    return every.distributions
