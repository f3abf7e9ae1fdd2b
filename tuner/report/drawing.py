"""Text drawings: interval bars, share bars and sparklines, in ASCII where Unicode is unavailable.

Owns the glyphs. The bars of a table share an axis in log units, so that twice as fast is as far
from the middle as twice as slow.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from tuner.records.estimate import Estimate
from tuner.report.styles import QUIET, tone
from tuner.text import clean, log_ratio, signed

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_LEVELS: Final = "▁▂▃▄▅▆▇█"

_ASCII: Final = str.maketrans(
    "●━╸╺─├┤│┼…" + _LEVELS + SPINNER, "o=  -[]|+~" + "_.,-=+*#" + "|/-\\|/-\\|/"
)

# Lower limit of an axis's reach: differences that are noise alone should look small.
_SHORTEST: Final = math.log(1.02)
# The axis reaches at most this many times the largest estimate. Intervals may be much wider; they
# run off the axis then and have no end mark.
_ROOM: Final = 1.8


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale of `width` cells (odd), from `reach` log units slower to `reach` faster."""

    reach: float
    width: int

    @classmethod
    def around(cls, estimates: Iterable[Estimate], width: int) -> Axis:
        """Return an axis that covers all estimates and, within reason, their intervals."""
        finite = list(estimates)
        size = max((_size(e.ratio) for e in finite), default=0.0)
        ends = max((max(_size(e.lower), _size(e.upper)) for e in finite), default=0.0)
        return cls(max(_SHORTEST, min(1.05 * ends, _ROOM * max(size, _SHORTEST))), width | 1)

    @property
    def middle(self) -> int:
        """The cell that stands for "no difference"."""
        return self.width // 2

    def cell(self, ratio: float) -> int:
        """Return the cell of a ratio; below 0, or `width` or more, if it is off the axis."""
        place = -log_ratio(ratio) / self.reach if ratio > 0.0 else math.inf
        return self.middle + round(max(-2.0, min(2.0, place)) * self.middle)

    def heading(self) -> Text:
        """Return a heading that labels the axis: "-12.0%   0   +12.0%"."""
        left, right = signed(math.exp(self.reach)), signed(math.exp(-self.reach))
        gap = self.width - len(left) - len(right)
        return Text(left + "0".center(gap) + right if gap >= 3 else "slower | faster", no_wrap=True)

    def bar(self, estimate: Estimate | None) -> Text:
        """Draw the interval as a line and the estimate as a dot; for None, only the zero mark."""
        cells = [" "] * self.width
        cells[self.middle] = "│"
        if estimate is None:
            return Text("".join(cells), style=QUIET, no_wrap=True)
        first, last = self.cell(estimate.upper), self.cell(estimate.lower)
        for i in range(max(0, first), min(self.width - 1, last) + 1):
            cells[i] = "─" if i != self.middle else "┼"
        for end, mark in ((first, "├"), (last, "┤")):
            if 0 <= end < self.width:
                cells[end] = mark
        cells[max(0, min(self.width - 1, self.cell(estimate.ratio)))] = "●"
        text = Text("".join(cells), style=tone(estimate.lower, estimate.upper), no_wrap=True)
        if cells[self.middle] == "│":
            text.stylize(QUIET, self.middle, self.middle + 1)
        return text


def _size(ratio: float) -> float:
    d = abs(log_ratio(ratio))
    return d if math.isfinite(d) else math.inf


def share_bar(share: float, width: int) -> str:
    """Draw a bar that fills `share` (0 to 1) of `width` cells; at least one cell if above 0."""
    if share <= 0.0:
        return ""
    return "█" * max(1, round(min(1.0, share) * width))


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw a series as a line of small bars scaled from its minimum to its maximum.

    A series longer than `width` is reduced to the means of neighbouring values.
    """
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)] if count else [0]
    means = [fmean(values[a:b]) for a, b in pairwise(edges)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    step = (high - low) / (len(_LEVELS) - 1) or 1.0
    return "".join(_LEVELS[round((mean - low) / step)] for mean in means)


@dataclass(frozen=True, slots=True)
class ToWidth:
    """Render the result of `make` for the available width (cells), at most `widest`."""

    make: Callable[[int], RenderableType]
    widest: int = 100

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, self.widest)
        yield from console.render(self.make(width), options.update_width(width))


def paragraph(text: str, style: str = "") -> RenderableType:
    """Wrap `text` to the available width."""

    def make(width: int) -> RenderableType:
        return Text("\n".join(textwrap.wrap(clean(text), max(width, 10))), style=style)

    return ToWidth(make)


@dataclass(frozen=True, slots=True)
class Printable:
    """Render `inner`, replacing non-ASCII characters if the console supports only ASCII."""

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.inner, options):
            if options.ascii_only and not segment.control:
                yield Segment(_ascii(segment.text), segment.style)
            else:
                yield segment


def encodable(text: str, encoding: str) -> str:
    """Return `text` as ASCII unless the encoding is a Unicode one."""
    return text if encoding.lower().startswith("utf") else _ascii(text)


def _ascii(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
