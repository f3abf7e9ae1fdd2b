"""Position the values of a parameter along an axis.

Numbers come first, in order; unordered values and "not set" follow, each in a separate slot.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.model import Value
from tuner.records.parameter_effects import ParameterEffect

#: Width of a slot, if the axis is long enough.
_SLOT = 58.0
#: Gap at either end of the range of numbers.
_EDGE = 8.0


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """An axis from ``left`` to ``right``.

    ``numbers``: those that were tried, each with its position from 0 to 1; ``others``: the values
    in slots.
    """

    numbers: tuple[tuple[int, float], ...]
    others: tuple[Value | None, ...]
    left: float
    right: float

    @classmethod
    def of(cls, effect: ParameterEffect, left: float, right: float) -> ValueAxis:
        """Return the axis of a parameter's values that were tried."""
        return cls(
            tuple(
                (v.value, v.at)
                for v in effect.levels
                if v.at is not None and isinstance(v.value, int)
            ),
            tuple(level.value for level in effect.levels if level.at is None),
            left,
            right,
        )

    def x(self, value: Value | None) -> float | None:
        """Return the position of a value, None if it has none.

        A flag that is off is treated as not set.
        """
        value = None if value is False else value
        if value in self.others:
            return self._begin + self._slot * (self.others.index(value) + 0.5)
        if self.numbers and isinstance(value, int) and value is not True:
            room = self._begin - self.left - 2.0 * _EDGE
            return self.left + _EDGE + room * _between(value, self.numbers)
        return None

    def labels(self) -> list[tuple[float, Value | None, str]]:
        """Return the labels: position, value and text anchor of range ends and other values."""
        ends = dict.fromkeys((self.numbers[0][0], self.numbers[-1][0])) if self.numbers else ()
        anchors = ("start", "end") if len(ends) > 1 else ("middle",)
        labels: list[tuple[float, Value | None, str]] = [
            (self.x(value) or 0.0, value, anchor)
            for value, anchor in zip(ends, anchors, strict=False)
        ]
        return [*labels, *((self.x(value) or 0.0, value, "middle") for value in self.others)]

    @property
    def _slot(self) -> float:
        slots = len(self.others) + (2 if self.numbers else 0)
        return min(_SLOT, (self.right - self.left) / max(1, slots))

    @property
    def _begin(self) -> float:
        """Position where the slots begin."""
        return self.right - self._slot * len(self.others)


def _between(value: int, marks: Sequence[tuple[int, float]]) -> float:
    """Interpolate the position of a number between those with known positions, given in order."""
    position = bisect_left(marks, (value, -1.0))
    if position == 0 or position == len(marks):
        return marks[min(position, len(marks) - 1)][1]
    (low, left_x), (high, right_x) = marks[position - 1], marks[position]
    return left_x + (right_x - left_x) * (value - low) / (high - low)
