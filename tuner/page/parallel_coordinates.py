"""Parallel coordinates of a search.

Each trial is a line from its estimated speed-up down through its values of the parameters that
matter. Axes are stacked vertically, so that they fit a phone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from markupsafe import Markup

from tuner.model import BASELINE, Trial, Value
from tuner.page.svg import drawing
from tuner.page.value_axis import ValueAxis
from tuner.records.estimate import Estimate
from tuner.records.parameter_effects import EffectState, ParameterEffect, ParameterEffects
from tuner.text import counted, log_ratio, signed, value_text

_WIDTH, _LEFT, _RIGHT = 340.0, 8.0, 332.0
_TOP, _PITCH, _BOTTOM = 34.0, 56.0, 22.0
_TICK = 4.0
_LONGEST_VALUE, _LONGEST_NAME = 9, 44
_MOST_AXES = 6
#: Maximum numbers of highlighted trials, and of others drawn behind them.
_BEST, _OTHERS = 10, 60
_SHORTEST = math.log(1.01)

#: Shrinkage for ranking: this many blocks without any difference are added to each trial's.
_SHRINK = 2.0

_Points = list[tuple[float, float]]


def parallel_coordinates(
    effects: ParameterEffects,
    trials: Sequence[Trial],
    by_trial: Mapping[int, tuple[Estimate, int]],
    leader: int,
) -> tuple[Markup, str]:
    """Return the drawing and a sentence on what it shows; both empty if there is nothing to draw.

    ``by_trial``: by trial number, the estimate against the baseline and its number of blocks.
    """
    estimates = {number: estimate for number, (estimate, _) in by_trial.items()}
    baseline = trials[BASELINE].configuration if trials else None
    matter = [one for one in effects.parameters if one.standing is not EffectState.INERT][
        :_MOST_AXES
    ]

    def rank(trial: Trial) -> tuple[bool, float, int]:
        estimate, blocks = by_trial[trial.number]
        shrunk = log_ratio(estimate.ratio) * blocks / (blocks + _SHRINK)
        return trial.number != leader, shrunk, trial.number

    # A twin of the baseline, such as a pilot's, is not informative.
    ranked = sorted(
        (t for t in trials if t.number in by_trial and t.configuration != baseline), key=rank
    )
    if not matter or not ranked:
        return Markup(""), ""
    best, rest = ranked[:_BEST], ranked[_BEST:]
    rest = rest[:: -(-len(rest) // _OTHERS) or 1]
    axes = [ValueAxis.of(one, _LEFT, _RIGHT) for one in matter]
    sizes = [abs(log_ratio(estimates[t.number].ratio)) for t in (*best, *rest)]
    scale = 1.1 * max(_SHORTEST, *sizes)
    parts = [_line(number) for number in range(len(axes) + 1)]

    def line(trial: Trial, kind: str) -> str:
        e = estimates.get(trial.number)
        difference = 0.0 if e is None else log_ratio(e.ratio)
        values = trial.configuration.as_dict()
        points = [(_score_x(difference, scale), _y(0))]
        for number, (one, axis) in enumerate(zip(matter, axes, strict=True), start=1):
            x = axis.x(values.get(one.name))
            if x is not None:
                points.append((x, _y(number)))
        return _path(points, kind, _summary(trial, e, [one.name for one in matter]))

    parts += [line(trial, "") for trial in reversed(rest)]
    parts += [line(trials[BASELINE], "baseline")]
    parts += [
        line(trial, "best leader" if trial.number == leader else "best") for trial in reversed(best)
    ]
    # Drawn last: below the lines the texts would be illegible.
    parts += _score_axis(scale)
    for number, (one, axis) in enumerate(zip(matter, axes, strict=True), start=1):
        parts += _axis(number, one, axis)
    height = _y(len(matter)) + _BOTTOM
    subject, look = ("the trial", "looks") if len(best) == 1 else (f"the {len(best)}", "look")
    text = f"Strong: {subject} that {look} best, few blocks count less; dashed: the baseline."
    if rest:
        text += f" Faint: {counted(len(rest), 'other')}."
    title = f"Parallel coordinates of {len(best) + len(rest)} trials"
    return drawing("parallel", _WIDTH, height, title, parts), text


def _y(number: int) -> float:
    return _TOP + _PITCH * number


def _score_x(difference: float, scale: float) -> float:
    """Return the x of a log difference; faster is to the right, 2x and 1/2x are symmetric."""
    half = (_RIGHT - _LEFT) / 2.0
    return _LEFT + half - half * max(-1.0, min(1.0, difference / scale))


def _score_axis(scale: float) -> list[str]:
    parts = [_name(0, "Faster than the baseline by")]
    for difference, anchor in ((scale / 1.1, "start"), (0.0, "middle"), (-scale / 1.1, "end")):
        text = signed(math.exp(difference)) if difference else "0"
        parts += _label(0, _score_x(difference, scale), text, anchor)
    return parts


def _axis(number: int, effect: ParameterEffect, axis: ValueAxis) -> list[str]:
    parts = [_name(number, effect.name)]
    for x, value, anchor in axis.labels():
        parts += _label(number, x, _short(value), anchor)
    return parts


def _line(number: int) -> str:
    y = _y(number)
    return f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y}" y2="{y}" class="tick"/>'


def _name(number: int, name: str) -> str:
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return f'<text x="{_LEFT}" y="{_y(number) - 8}" class="start name">{escape(short)}</text>'


def _label(number: int, x: float, text: str, anchor: str) -> list[str]:
    y = _y(number)
    return [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + _TICK}" class="tick"/>',
        f'<text x="{x:.1f}" y="{y + 15}" class="{anchor}">{escape(text)}</text>',
    ]


def _path(corners: _Points, kind: str, text: str) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return (
        f'<polyline points="{points}" class="{f"path {kind}".strip()}">'
        f"<title>{escape(text)}</title></polyline>"
    )


def _summary(trial: Trial, estimate: Estimate | None, names: Sequence[str]) -> str:
    values = trial.configuration.as_dict()
    settings = ", ".join(
        f"{name.rpartition('.')[2]} {value_text(values.get(name))}" for name in names
    )
    if trial.number == BASELINE:
        return f"baseline: {settings}"
    gain = "" if estimate is None else f" {signed(estimate.ratio)}"
    return f"trial {trial.number}{gain}: {settings}"


def _short(value: Value | None) -> str:
    text = value_text(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
