"""Implementations of ``Ask`` for tests of ``draw``."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from search_spaces import Value


class Chance:
    """Random answers from a seed. ``ranges``: the ranges given for each question."""

    def __init__(self, seed: int, set_probability: float = 0.5) -> None:
        self._random = random.Random(seed)
        self._set_probability = set_probability
        self.ranges: dict[str, set[tuple[object, ...]]] = {}

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        self.ranges.setdefault(name, set()).add((low, high, log))
        if not log:
            return self._random.randint(low, high)
        return min(
            high, max(low, round(math.exp(self._random.uniform(math.log(low), math.log(high)))))
        )

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        self.ranges.setdefault(name, set()).add(tuple(options))
        if name.endswith("?"):
            return self._random.random() < self._set_probability
        return self._random.choice(options)


class FixedAnswers:
    """Gives predefined answers."""

    def __init__(self, answers: Mapping[str, Value]) -> None:
        self._answers = answers

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        answer = self._answers[name]
        assert not isinstance(answer, str)
        assert low <= answer <= high
        return answer

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        answer = self._answers[name]
        assert answer in options
        return answer
