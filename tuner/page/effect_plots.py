"""Plots of the effects of parameters.

Ordered numeric values have a curve with a confidence band; unordered values and "not set" have a
whisker each. Faster is up; all plots of a page share one scale.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from tuner.model import BASELINE, Trial, Value
from tuner.page.svg import drawing
from tuner.page.value_axis import ValueAxis
from tuner.records.estimate import Estimate
from tuner.records.parameter_effects import EffectState, Level, ParameterEffect, ParameterEffects
from tuner.report.parameter_effects import (
    EffectsDocument,
    level_text,
    parameter_of,
    parameter_text,
)
from tuner.text import counted, log_ratio, signed, value_text

_WIDTH, _HEIGHT = 340.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 12.0, 24.0
#: Width of the slot of each unordered value, if the plot is wide enough.
_SLOT = 58.0
_LONGEST = 9
#: Maximum number of parameters drawn.
_MOST_PLOTS = 6
#: Maximum number of trials drawn in a slice.
_MOST_DOTS = 300
_SHORTEST = math.log(1.01)
_Height = Callable[[float], float]


def reach(effects: Sequence[ParameterEffect]) -> float:
    """Return the half-width, in log units, of a scale that suits all of these effects."""
    middles = [abs(log_ratio(v.estimate.ratio)) for e in effects for v in e.levels]
    ends = [
        abs(log_ratio(end))
        for e in effects
        for level in e.levels
        for end in (level.estimate.lower, level.estimate.upper)
    ]
    most = 2.5 * max([_SHORTEST, *middles])
    return 1.1 * max([_SHORTEST, *(min(end, most) for end in ends)])


def effect_plot(of: ParameterEffect, scale: float) -> Markup:
    """Draw the effect of one parameter. ``scale``: as returned by ``reach``."""
    ordered = [level for level in of.levels if level.at is not None]
    apart = [level for level in of.levels if level.at is None]
    room = _WIDTH - _LEFT - _RIGHT
    slot = min(_SLOT, room / max(1, len(apart) + (2 if ordered else 0)))
    along = room - slot * len(apart)

    def y(difference: float) -> float:
        half = (_HEIGHT - _TOP - _BOTTOM) / 2.0
        return _TOP + half + half * max(-1.0, min(1.0, difference / scale))

    def x(level: Level) -> float:
        assert level.at is not None
        return _LEFT + 8.0 + (along - 16.0) * level.at

    parts = []
    for value in (-scale, 0.0, scale):
        inside = value / 1.1
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y(inside):.1f}" class="end level">'
            f"{signed(math.exp(inside)) if value else '0'}</text>"
        )
    parts.append(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(0):.1f}" y2="{y(0):.1f}" class="zero"/>'
    )
    if len(ordered) > 1:
        upper = [f"{x(v):.1f},{y(log_ratio(v.estimate.upper)):.1f}" for v in ordered]
        lower = [f"{x(v):.1f},{y(log_ratio(v.estimate.lower)):.1f}" for v in reversed(ordered)]
        line = [f"{x(v):.1f},{y(log_ratio(v.estimate.ratio)):.1f}" for v in ordered]
        parts.append(f'<polygon points="{" ".join(upper + lower)}" class="band"/>')
        parts.append(f'<polyline points="{" ".join(line)}" class="line"/>')
    for level in ordered:
        parts += _point(level, x(level), y, whisker=len(ordered) == 1)
    for end in dict.fromkeys((0, len(ordered) - 1)) if ordered else ():
        anchor = "middle" if len(ordered) == 1 else ("start", "end")[end > 0]
        parts.append(_label(x(ordered[end]), ordered[end], anchor))
    for number, level in enumerate(apart):
        at = _LEFT + along + slot * (number + 0.5)
        parts += _point(level, at, y, whisker=True)
        parts.append(_label(at, level, "middle"))
    return drawing("effect", _WIDTH, _HEIGHT, f"{of.name}: {parameter_text(of)}", parts)


def _point(level: Level, x: float, y: _Height, *, whisker: bool) -> list[str]:
    e = level.estimate
    tone = "faster" if e.upper < 1.0 else "slower" if e.lower > 1.0 else "open"
    parts = []
    if whisker:
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(log_ratio(e.upper)):.1f}" '
            f'y2="{y(log_ratio(e.lower)):.1f}" class="whisker {tone}"/>'
        )
    parts.append(
        f'<circle cx="{x:.1f}" cy="{y(log_ratio(e.ratio)):.1f}" r="3.5" class="dot {tone}">'
        f"<title>{escape(level_text(level))}</title></circle>"
    )
    return parts


def _label(x: float, level: Level, anchor: str) -> str:
    return _text(x, level.value, anchor)


def _text(x: float, value: Value | None, anchor: str) -> str:
    text = value_text(value)
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f'<text x="{x:.1f}" y="{_HEIGHT - 8}" class="{anchor}">{escape(short)}</text>'


@dataclass(frozen=True, slots=True)
class Plot:
    """A parameter with its plot."""

    name: str
    text: str
    drawing: Markup


def effect_plots(of: EffectsDocument) -> tuple[Plot, ...]:
    """Draw the parameters that matter most on one scale: clear effects first, then open ones."""
    parameters = [one for one in of.parameters if one.standing is not EffectState.INERT]
    pairs = [(one, parameter_of(one)) for one in parameters[:_MOST_PLOTS]]
    scale = reach([effect for _, effect in pairs])
    return tuple(Plot(one.name, one.text, effect_plot(effect, scale)) for one, effect in pairs)


def slices(
    of: ParameterEffects, trials: Sequence[Trial], estimates: Mapping[int, Estimate]
) -> tuple[Plot, ...]:
    """Plot each trial's measured score against its value of a parameter, per parameter drawn.

    If there are too many trials to tell apart, an evenly spaced selection is drawn.
    """
    measured_trials = [t for t in trials if t.number != BASELINE and t.number in estimates]
    measured_trials = measured_trials[:: -(-len(measured_trials) // _MOST_DOTS) or 1]
    parameters = [one for one in of.parameters if one.standing is not EffectState.INERT][
        :_MOST_PLOTS
    ]
    if not measured_trials or not parameters:
        return ()
    ratios = {t.number: log_ratio(estimates[t.number].ratio) for t in measured_trials}
    scale = 1.1 * max(_SHORTEST, *(abs(ratio) for ratio in ratios.values()))
    return tuple(
        Plot(one.name, "", _slice(one, measured_trials, ratios, scale)) for one in parameters
    )


def _slice(
    of: ParameterEffect, trials: Sequence[Trial], ratios: Mapping[int, float], scale: float
) -> Markup:
    axis = ValueAxis.of(of, _LEFT, _WIDTH - _RIGHT)
    half = (_HEIGHT - _TOP - _BOTTOM) / 2.0
    middle = _TOP + half
    parts = [
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{middle}" y2="{middle}" class="zero"/>',
        *(
            f'<text x="{_LEFT - 6}" y="{middle + half * d / scale:.1f}" class="end level">'
            f"{signed(math.exp(d)) if d else '0'}</text>"
            for d in (-scale / 1.1, 0.0, scale / 1.1)
        ),
    ]
    for trial in trials:
        value = trial.configuration.as_dict().get(of.name)
        x = axis.x(value)
        if x is None:
            continue
        # Spread the dots of a slot a little, so that they can be told apart.
        x += 0.0 if _is_number(value) else 3.0 * (trial.number % 5 - 2)
        d = ratios[trial.number]
        parts.append(
            f'<circle cx="{x:.1f}" cy="{middle + half * d / scale:.1f}" r="2.5" class="dot g1">'
            f"<title>trial {trial.number}, {escape(value_text(value))}: "
            f"{signed(math.exp(d))}</title></circle>"
        )
    parts += [_text(x, value, anchor) for x, value, anchor in axis.labels()]
    return drawing("effect", _WIDTH, _HEIGHT, f"{of.name}: every trial by its value", parts)


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def basis(of: EffectsDocument) -> str:
    """State in a sentence which measurements the effects are based on."""
    some = "" if of.blocks == of.blocks_measured else f", taken evenly from {of.blocks_measured}"
    return f"From {counted(of.runs, 'run')} in {counted(of.blocks, 'block')}{some}."


def standings(of: EffectsDocument) -> str:
    """Count the parameters by standing: "15 parameters: 3 clear, 4 inert, 8 open"."""
    counts = Counter(one.standing for one in of.parameters)
    text = ", ".join(f"{counts[each]} {each}" for each in EffectState if counts[each])
    return f"{counted(len(of.parameters), 'parameter')}: {text}"
