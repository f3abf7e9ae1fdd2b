"""SVG drawings for the pages, coloured by the style sheet: intervals, series, dots.

Everything drawn also appears in a table or a sentence. Horizontal axes of effects are in log units,
so that twice as fast is as far from the middle as twice as slow; faster is to the right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from tuner.records.estimate import Estimate
from tuner.text import log_ratio

WIDTH, ROW = 400.0, 28.0
_PLOT_WIDTH, _PLOT_HEIGHT, _LEFT, _BOTTOM = 720.0, 200.0, 56.0, 24.0
_MOST_POINTS, _MOST_DOTS = 400, 150
#: Lower limit of an axis's reach, so that differences that are noise alone look small.
_SHORTEST = math.log(1.03)
_ROOM = 1.6
_BETWEEN_TICKS = 0.25
_TICKS_PERCENT = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class Axis:
    """The horizontal axis of a row: ``reach`` log units to each side of no change."""

    reach: float

    @classmethod
    def around(cls, estimates: Iterable[Estimate], *marks: float) -> Axis:
        """Return an axis that covers all estimates and, within reason, their intervals.

        ``marks``: log differences that it must also cover.
        """
        finite = list(estimates)
        sizes = [abs(log_ratio(e.ratio)) for e in finite if e.ratio > 0.0]
        most = max([_SHORTEST, *(1.2 * abs(mark) for mark in marks), *(_ROOM * s for s in sizes)])
        ends = [abs(log_ratio(end)) for e in finite for end in (e.lower, e.upper)]
        widest = max((end for end in ends if math.isfinite(end)), default=most)
        return cls(max(_SHORTEST, min(1.1 * max(widest, *sizes, _SHORTEST), 2.0 * most), most))

    def x(self, difference: float) -> float:
        """Return the x of a log difference (negative: faster, to the right), clipped to the row."""
        half = WIDTH / 2.0
        return half - half * max(-1.0, min(1.0, difference / self.reach))

    def ticks(self) -> list[tuple[float, str]]:
        """Return round percentages on the axis, as pairs of position and label."""
        step = next(
            (p for p in _TICKS_PERCENT if math.log1p(p / 100.0) >= 0.3 * self.reach),
            _TICKS_PERCENT[-1],
        )
        ticks, last = [(0.0, "0")], 0.0
        for times in (1, 2, 3):
            size = math.log1p(times * step / 100.0)
            # The labels must not overlap.
            if last + _BETWEEN_TICKS * self.reach <= size <= 0.97 * self.reach:
                last = size
                ticks.append((-size, f"+{times * step}%"))
                ticks.append((size, f"−{times * step}%"))
        return [(self.x(difference), text) for difference, text in sorted(ticks)]


def heading(axis: Axis) -> Markup:
    """Draw the axis, for the heading of a table's column."""
    parts = [
        f'<text x="{x:.1f}" y="12" class="{_anchor(x)}">{escape(text)}</text>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="20" class="tick"/>'
        for x, text in axis.ticks()
    ]
    return drawing("axis", WIDTH, 20.0, "", parts)


def _anchor(x: float) -> str:
    return "start" if x < 20.0 else "end" if x > WIDTH - 20.0 else "middle"


def interval(axis: Axis, estimate: Estimate | None, marks: Sequence[float] = ()) -> Markup:
    """Draw an estimate with its interval. ``marks``: log differences to mark with lines."""
    parts = [f'<line x1="{axis.x(0):.1f}" x2="{axis.x(0):.1f}" y1="0" y2="{ROW}" class="zero"/>']
    parts += [
        f'<line x1="{axis.x(m):.1f}" x2="{axis.x(m):.1f}" y1="0" y2="{ROW}" class="mark"/>'
        for m in marks
        if abs(m) <= axis.reach
    ]
    if estimate is not None:
        low, high = log_ratio(estimate.lower), log_ratio(estimate.upper)
        tone = "faster" if high < 0.0 else "slower" if low > 0.0 else "open"
        left, right, middle = axis.x(high), axis.x(low), axis.x(log_ratio(estimate.ratio))
        y = ROW / 2.0
        parts.append(
            f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" class="whisker {tone}"/>'
        )
        for end, x in ((high, left), (low, right)):
            if abs(end) <= axis.reach:
                parts.append(
                    f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 5}" y2="{y + 5}" '
                    f'class="whisker {tone}"/>'
                )
        parts.append(f'<circle cx="{middle:.1f}" cy="{y}" r="5" class="dot {tone}"/>')
    return drawing("interval", WIDTH, ROW, "", parts)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a series, with its interval if there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    kind: str = ""


def series(
    points: Sequence[Point],
    title: str,
    *,
    steps: bool,
    marks: Sequence[float] = (),
) -> Markup:
    """Plot percentages by block number, with a line at 0 and a band where there are intervals.

    ``steps``: each value holds until the next. ``marks``: block numbers of events to mark. Long
    series are reduced to an evenly spaced selection that a line can resolve. ``points`` must be in
    the order of ``x``.
    """
    points = _thinned(points)
    ends = [v for p in points for v in (p.low, p.high) if v is not None]
    values = [p.y for p in points]
    spread = max([abs(v) for v in values] or [0.0])
    room = max(1e-9, 2.5 * spread) or 1.0
    drawn_values = [*values, 0.0, *(v for v in ends if abs(v) <= room)]
    low, high = min(drawn_values), max(drawn_values)
    pad = 0.1 * (high - low) or 0.01
    low, high = low - pad, high + pad
    first, last = points[0].x, points[-1].x
    width, height = _PLOT_WIDTH - _LEFT - 8.0, _PLOT_HEIGHT - _BOTTOM - 8.0

    def place(x: float, y: float) -> str:
        along = (x - first) / (last - first) if last > first else 0.5
        up = (min(high, max(low, y)) - low) / (high - low)
        return f"{_LEFT + along * width:.1f},{8.0 + (1.0 - up) * height:.1f}"

    parts = []
    band = [p for p in points if p.low is not None and p.high is not None]
    if len(band) > 1:
        outline = [place(p.x, p.high or 0.0) for p in band]
        outline += [place(p.x, p.low or 0.0) for p in reversed(band)]
        parts.append(f'<polygon points="{" ".join(outline)}" class="band"/>')
    start, end = place(first, 0.0), place(last if last > first else first, 0.0)
    (x1, y1), (x2, _) = start.split(","), end.split(",")
    parts.append(f'<line x1="{x1}" x2="{x2}" y1="{y1}" y2="{y1}" class="zero"/>')
    for at in sorted(set(marks))[-_MOST_DOTS:]:
        x, _ = place(at, 0.0).split(",")
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="8" y2="{_PLOT_HEIGHT - _BOTTOM}" class="disturbed"/>'
        )
    line = []
    for before, now in zip([None, *points], points, strict=False):
        if steps and before is not None:
            line.append(place(now.x, before.y))
        line.append(place(now.x, now.y))
    parts.append(f'<polyline points="{" ".join(line)}" class="line"/>')
    for p in points if len(points) <= _MOST_DOTS else ():
        x, y = place(p.x, p.y).split(",")
        parts.append(f'<circle cx="{x}" cy="{y}" r="3" class="dot {escape(p.kind)}"/>')
    for value in sorted({low + pad, 0.0, high - pad}):
        _, y = place(first, value).split(",")
        parts.append(f'<text x="{_LEFT - 6}" y="{y}" class="end level">{value:+.1f}%</text>')
    for number in sorted({first, last}):
        x, _ = place(number, 0.0).split(",")
        parts.append(
            f'<text x="{x}" y="{_PLOT_HEIGHT - 6}" class="{_anchor_wide(float(x))}">'
            f"block {number:.0f}</text>"
        )
    return drawing("series", _PLOT_WIDTH, _PLOT_HEIGHT, title, parts)


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    every = -(-len(points) // _MOST_POINTS)
    return points if every <= 1 else [*points[:-1:every], points[-1]]


def _anchor_wide(x: float) -> str:
    return "start" if x < 100.0 else "end" if x > _PLOT_WIDTH - 60.0 else "middle"


def dots(rows: Sequence[tuple[str, Sequence[float]]], title: str) -> Markup:
    """Plot log differences of several groups, one row each: a dot per value, a line at the mean."""
    values = [value for _, of in rows for value in of]
    reach = max([_SHORTEST, *(1.1 * abs(v) for v in values)])
    axis = Axis(reach)
    height = 44.0
    parts: list[str] = []
    for number, (name, of) in enumerate(rows):
        y = 20.0 + height * number + height / 2.0
        parts.append(f'<text x="0" y="{y - 14:.1f}" class="start">{escape(name)}</text>')
        for place, value in enumerate(of):
            # Spread vertically a little, so that equal values can be told apart.
            up = y + 3.0 * ((place % 3) - 1)
            parts.append(
                f'<circle cx="{axis.x(value):.1f}" cy="{up:.1f}" r="3.5" class="dot g{number}"/>'
            )
        if of:
            mean = axis.x(math.fsum(of) / len(of))
            parts.append(
                f'<line x1="{mean:.1f}" x2="{mean:.1f}" y1="{y - 11:.1f}" y2="{y + 11:.1f}" '
                'class="mean"/>'
            )
    total = 20.0 + height * len(rows)
    middle = axis.x(0.0)
    parts.insert(0, f'<line x1="{middle}" x2="{middle}" y1="16" y2="{total}" class="zero"/>')
    parts += [
        f'<text x="{x:.1f}" y="10" class="{_anchor(x)}">{escape(text)}</text>'
        for x, text in axis.ticks()
    ]
    return drawing("dots", WIDTH, total, title, parts)


def drawing(kind: str, width: float, height: float, title: str, parts: Sequence[str]) -> Markup:
    """Return an SVG image; without a title it is marked as redundant with adjacent text."""
    role = f'role="img" aria-label="{escape(title)}"' if title else 'aria-hidden="true"'
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" {role}>{"".join(parts)}</svg>'
    )
