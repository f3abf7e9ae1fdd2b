"""Greedy ascent from a good configuration to a better one, one setting at a time. Pure.

A pool of configurations holds only a few of the possible combinations of values. If effects are
additive, the best value of each parameter can be found independently: each step tries every other
value of every parameter and makes the change that gains most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from search_spaces import Kind, Parameter
from tuner.model import Configuration, Value
from tuner.propose.encoding import Encoding, Floats, Tunable

#: Number of values of a parameter that a step tries, in addition to "not set".
_VALUES = 6
_MOST_STEPS = 12
#: Minimum gain of a change, log units: less is rounding.
_LEAST_GAIN = 1e-9

#: Objective to maximise: from features, (rows, width), to values, (rows,).
Worth = Callable[[Floats], Floats]


class Ascent:
    """Changes configurations to maximise a given objective."""

    def __init__(
        self, tunables: Mapping[str, Tunable], encoding: Encoding, rng: np.random.Generator
    ) -> None:
        self._encoding = encoding
        positions = {axis.name: number for number, axis in enumerate(encoding.axes)}
        self._choices: list[tuple[int, str, Value | None]] = []
        for part, tunable in tunables.items():
            for parameter in tunable.space.searched:
                name = f"{part}.{parameter.name}"
                for value in (None, *_values(parameter, rng)):
                    self._choices.append((positions[name], name, value))
        self._features = [encoding.axes[axis].features(value) for axis, _, value in self._choices]

    def choices(self, name: str) -> list[Value | None]:
        """Return the values of one parameter that a step tries."""
        return [value for _, other, value in self._choices if other == name]

    def climb(self, start: Configuration, worth: Worth) -> dict[str, Value]:
        """Climb from ``start`` to a local maximum; the returned values may be invalid together."""
        values = start.as_dict()
        if not self._choices:
            return values
        here = self._encoding.features([start])[0]
        height = float(worth(here[None, :])[0])
        for _ in range(_MOST_STEPS):
            rows = np.repeat(here[None, :], len(self._choices), axis=0)
            for row, (axis, _, _) in enumerate(self._choices):
                rows[row, self._encoding.groups[axis]] = self._features[row]
            heights = worth(rows)
            best = int(heights.argmax())
            if heights[best] <= height + _LEAST_GAIN:
                break
            height, here = float(heights[best]), rows[best]
            _, name, value = self._choices[best]
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        return values


def _values(parameter: Parameter, rng: np.random.Generator) -> Sequence[Value]:
    """Return values to try: all if there are few, otherwise some spread over the range."""
    if parameter.kind is Kind.BOOLEAN:
        return [True]
    if parameter.kind is Kind.CATEGORICAL:
        return parameter.candidates
    low, high = parameter.low, parameter.high
    if parameter.kind is Kind.POWER_OF_TWO:
        first, last = low.bit_length() - 1, high.bit_length() - 1
        return [1 << int(e) for e in _spread(first, last, rng)]
    if parameter.kind is Kind.LOG_INT and low > 0:
        ends = math.log(low), math.log(high)
        positions = np.sort(rng.uniform(*ends, _VALUES))
        inside = [min(high, max(low, round(math.exp(place)))) for place in positions]
        return sorted({low, high, *inside})
    return [int(value) for value in _spread(low, high, rng)]


def _spread(low: int, high: int, rng: np.random.Generator) -> Sequence[int]:
    """Return all integers of a short range, or some of a longer one."""
    if high - low < 2 * _VALUES:
        return range(low, high + 1)
    return sorted({low, high, *(int(v) for v in rng.integers(low, high + 1, _VALUES))})
