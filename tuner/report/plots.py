"""Text plots of samples: the classic ministat plot, and dots over box plots.

Owns the mapping from values to cells. The dots and boxes of a plot share an axis in the unit of the
values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.ministat import Summary

SYMBOLS: Final = "x+*%#@O"
"""Symbols of the classic plot for the first, second, ... sample; their number is the limit."""

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
    """Return the lines of the classic plot: stacked values above bars of mean ± sd.

    M marks the median and A the mean. width: cells between the borders. separate: draw each
    sample's bar on a separate line. A cell with values of both of two samples is drawn as `*`; with
    more samples, as `&`, because `*` is the third sample's symbol. The plot is as high as the
    tallest stack of any sample. Raises ValueError for more samples than SYMBOLS.
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
    """Dots over box plots; lines: for each sample, its lines from top to bottom.

    A box spans the quartiles and marks the median, its whiskers reach the smallest and the largest
    value: `├──[━│━━]─┤`. per_dot: most values that one dot stands for; low, high: ends of the axis.
    """

    lines: tuple[tuple[str, ...], ...]
    per_dot: int
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[Sequence[float]], *, width: int) -> DotPlot:
        """Plot samples, each of at least one finite value, `width` cells wide."""
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
