"""Sampling of configurations as a sequence of questions whose answers are always valid."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from search_spaces.expressions import Value
from search_spaces.fitting import before, satisfy, walk
from search_spaces.model import Kind, Parameter
from search_spaces.space import Space
from search_spaces.values_in_effect import expand_preset

#: Suffix of a parameter's name in the question whether to set it at all.
WHETHER = "?"


class Ask(Protocol):
    """A source of decisions, such as a random generator or an optimiser.

    Questions with the same name always have the same range.
    """

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """An integer in low..high, inclusive; ``log``: on a logarithmic scale."""
        ...

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """One of ``options``."""
        ...


class Chance:
    """Random answers, reproducible for the same seed.

    ``set_probability``: probability of setting a parameter at all.
    """

    def __init__(self, seed: int, set_probability: float = 0.5) -> None:
        self._random = random.Random(seed)
        self._set_probability = set_probability

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """See Ask.integer."""
        if not log:
            return low + int(self._random.random() * (high - low + 1))
        number = round(low * math.exp(self._random.random() * math.log(high / low)))
        return min(high, max(low, number))

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """See Ask.choice."""
        if name.endswith(WHETHER):
            return self._random.random() < self._set_probability
        return options[int(self._random.random() * len(options))]


class Sampler:
    """Samples valid configurations of a space on one host.

    ``facts``: of the host; ``initial``: the original configuration. What follows from them is
    computed once.
    """

    def __init__(
        self,
        space: Space,
        facts: Mapping[str, int] | None = None,
        initial: Mapping[str, Value] | None = None,
    ) -> None:
        self._space, self._facts = space, facts
        self._fixed = _fixed_values(space, initial or {})
        original = before(space, initial or {}, facts)
        # What is asked for is a change even where the answer is the original value.
        own = {n: value for n, value in original.values.items() if not space[n].searched}
        self._original = replace(original, values=own)

    def draw(self, ask: Ask) -> dict[str, Value]:
        """Sample a configuration, deciding each parameter with ``ask``.

        For each searched parameter whose condition holds, ``ask`` first decides whether to set it
        (the question ``name?``), then its value (the question ``name``), always in the same range
        (for powers of two, that of the exponent). Answers are then moved into the limits imposed by
        the other values and the host. Parameters that are not searched keep their original values.
        Raises SpaceError if no configuration fits the host.
        """

        def propose(parameter: Parameter, _: Mapping[str, Value]) -> Value | None:
            name = parameter.name
            if not parameter.searched:
                return self._fixed.get(name)
            if not ask.choice(name + WHETHER, (False, True)):
                return None
            return _ask_value(parameter, ask)

        values, env = walk(self._space, self._facts, propose, self._original)
        return satisfy(self._space, values, env, self._facts, self._original)


def draw(
    space: Space,
    ask: Ask,
    facts: Mapping[str, int] | None = None,
    initial: Mapping[str, Value] | None = None,
) -> dict[str, Value]:
    """Sample one configuration; see ``Sampler``."""
    return Sampler(space, facts, initial).draw(ask)


def questions(space: Space, ask: Ask) -> None:
    """Ask every question that ``draw`` may ask exactly once, regardless of the answers.

    Use it to collect the questions and their ranges in advance.
    """
    for parameter in space.searched:
        ask.choice(parameter.name + WHETHER, (False, True))
        _ask_value(parameter, ask)


def _ask_value(parameter: Parameter, ask: Ask) -> Value:
    if parameter.kind is Kind.BOOLEAN:
        return True
    if parameter.kind is Kind.CATEGORICAL:
        one = len(parameter.candidates) == 1
        return parameter.candidates[0] if one else ask.choice(parameter.name, parameter.candidates)
    low, high = parameter.low, parameter.high
    if parameter.kind is Kind.POWER_OF_TWO:
        exponents = low.bit_length() - 1, high.bit_length() - 1
        return 1 << int(ask.integer(parameter.name, *exponents, False))
    return ask.integer(parameter.name, low, high, parameter.kind is Kind.LOG_INT)


def _fixed_values(space: Space, initial: Mapping[str, Value]) -> dict[str, Value]:
    """The values that stay unchanged. A preset that stays is expanded into its values if one of
    them is searched.
    """
    fixed = dict(initial)
    if not space.preset_parameter or space[space.preset_parameter].searched:
        return fixed
    moved = [n for n in space.preset_fields if space[n].searched or space[n].fixed is not None]
    if moved and space.preset_parameter in fixed:
        values = expand_preset(space, {**fixed, **dict.fromkeys(moved, 0)}, moved)
        fixed = {name: value for name, value in values.items() if name not in moved}
    return fixed


def answers(
    space: Space,
    values: Mapping[str, Value],
    facts: Mapping[str, int] | None = None,
    initial: Mapping[str, Value] | None = None,
) -> dict[str, Value]:
    """The answers that make ``draw`` return ``values``, as closely as its ranges allow.

    Use it to report a configuration to an optimiser that did not propose it. Values are first made
    valid on this host; ``initial``: the original configuration. Raises SpaceError for an unknown
    parameter or a value of the wrong type.
    """
    values_that_fit = space.fit(values, facts, initial)
    answers_by_question: dict[str, Value] = {}

    def propose(parameter: Parameter, _: Mapping[str, Value]) -> Value | None:
        name, value = parameter.name, values_that_fit.get(parameter.name)
        if not parameter.searched:
            return value
        answer = None if value is None else _answer(parameter, value)
        answers_by_question[name + WHETHER] = answer is not None
        single = parameter.kind is Kind.BOOLEAN or len(parameter.candidates) == 1
        if answer is not None and not single:
            answers_by_question[name] = answer
        return value

    walk(space, facts, propose, before(space, initial or {}, facts))
    return answers_by_question


def _answer(parameter: Parameter, value: Value) -> Value | None:
    """The answer of ``ask`` that gives this value or the nearest one; None to leave it unset."""
    if parameter.kind is Kind.BOOLEAN:
        return True if value is True else None
    if isinstance(value, str):
        return value if value in parameter.candidates else None
    if value == parameter.same_as_unset:
        return None
    near = min(max(value, parameter.low), parameter.high)
    return near.bit_length() - 1 if parameter.kind is Kind.POWER_OF_TWO else near
