"""Plots of samples in text: the classic one of ministat, and dots over boxes.

Owns what a cell stands for. The dots and boxes of one plot share an axis in the unit of the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.ministat import Summary

SYMBOLS: Final = "x+*%#@O"
"""What the classic plot draws the first, second, ... sample with; there are no more."""

_BOTH: Final = "*"
_SEVERAL: Final = "&"
_TALLEST: Final = 4


def classic_plot(
    samples: Sequence[Sequence[float]],
    summaries: Sequence[Summary],
    *,
    width: int,
    separate: bool = False,
) -> list[str]:
    """The lines of the classic plot: stacked values, below them mean -+ sd, M median, A mean.

    width: cells between the borders. separate: a line of its own for each sample's bar. A cell with
    values of both of two samples has a `*`; with more samples, where `*` is the third's own symbol,
    a `&`. Stacks are drawn whole, whichever sample is the tallest. ValueError for more samples than
    SYMBOLS.
    """
    if len(samples) > len(SYMBOLS):
        raise ValueError(f"the classic plot has symbols for {len(SYMBOLS)} samples")
    spans = [(s.minimum, s.maximum, s.mean - s.sd, s.mean + s.sd) for s in summaries]
    low = min(min(span) for span in spans)
    step = (max(max(span) for span in spans) - low) / (width - 1)
    start = low - step / 2.0

    def cell(value: float) -> int:
        return int((value - start) / step) if step > 0.0 else width // 2

    stacks = [np.bincount([cell(v) for v in values], minlength=width) for values in samples]
    lines = []
    for level in range(max(int(stack.max()) for stack in stacks), 0, -1):
        present = np.array([stack >= level for stack in stacks])
        lines.append("".join(_symbol(column) for column in present.T))
    rows = [[" "] * width for _ in (summaries if separate else summaries[:1])]
    for index, summary in enumerate(summaries):
        _bar(rows[index if separate else 0], summary, cell)
    border = f"+{'-' * width}+"
    framed = [f"|{line}|" for line in [*lines, *("".join(row) for row in rows)]]
    return [border, *framed, border]


def _symbol(present: Sequence[bool]) -> str:
    here = [SYMBOLS[i] for i, is_here in enumerate(present) if is_here]
    if len(here) > 1:
        return _BOTH if len(present) == 2 else _SEVERAL
    return here[0] if here else " "


def _bar(row: list[str], summary: Summary, cell: Callable[[float], int]) -> None:
    first, last = cell(summary.mean - summary.sd), cell(summary.mean + summary.sd)
    row[last] = row[first] = "|"
    for i in range(first + 1, last):
        if row[i] == " ":
            row[i] = "_"
    row[cell(summary.median)] = "M"
    row[cell(summary.mean)] = "A"


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Dots over boxes, `width` cells wide, for each sample its lines from top to bottom.

    A box reaches from quartile to quartile with the median within, its whiskers to the smallest and
    the largest value: `├──[━│━━]─┤`. per_dot: how many values a dot stands for at most; low, high:
    ends of the axis.
    """

    lines: tuple[tuple[str, ...], ...]
    per_dot: int
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[Sequence[float]], *, width: int) -> DotPlot:
        """The plot of samples of at least one finite value each."""
        low = min(min(values) for values in samples)
        high = max(max(values) for values in samples)

        def cell(value: float) -> int:
            reach = high - low
            return round((value - low) / reach * (width - 1)) if reach > 0.0 else width // 2

        stacks = [np.bincount([cell(v) for v in values], minlength=width) for values in samples]
        per_dot = math.ceil(max(int(stack.max()) for stack in stacks) / _TALLEST)
        lines = []
        for values, stack in zip(samples, stacks, strict=True):
            heights = np.ceil(stack / per_dot)
            dots = [
                "".join("●" if height >= level else " " for height in heights)
                for level in range(int(heights.max()), 0, -1)
            ]
            quartiles = np.quantile(values, (0.0, 0.25, 0.5, 0.75, 1.0))
            lines.append((*dots, _box([cell(float(q)) for q in quartiles], width)))
        return cls(tuple(lines), per_dot, low, high)


def _box(cells: Sequence[int], width: int) -> str:
    first, lower, median, upper, last = cells
    row = [" "] * width
    row[first : last + 1] = "─" * (last + 1 - first)
    row[lower : upper + 1] = "━" * (upper + 1 - lower)
    row[first], row[last] = "├", "┤"
    row[lower], row[upper] = "[", "]"
    row[median] = "│"
    return "".join(row)
