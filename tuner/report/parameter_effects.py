"""Describe the effects of parameters in sentences and as a document for programs.

Owns the wording of the model's statements on parameters, and the document's schema.
"""

from __future__ import annotations

import math
from typing import Final

from pydantic import Field

from tuner.model import Value
from tuner.records.estimate import Estimate
from tuner.records.parameter_effects import (
    EffectState,
    Level,
    PairEffect,
    ParameterEffect,
    ParameterEffects,
)
from tuner.report.recommendation_document import Effect, Part, effect
from tuner.text import faster, interval, value_text

#: How much weight the effects can bear, in one sentence for readers who stop there.
WORTH: Final = (
    "These are estimates from all measurements, not certified claims: they show where to look, and "
    "about one interval in twenty is wrong. They do not assume, as the search does, that few "
    "parameters matter, and are averages over all configurations measured: so they tell less than "
    "the gains of the recommended settings."
)
_MOST_PERCENT = 100.0


class LevelDocument(Effect):
    """A value that was tried (None: not set), compared with the baseline's value of this parameter,
    averaged over the other settings as measured; 95% interval. ``at``: its position in the range
    tried, 0 to 1; None if values have no order.
    """

    value: Value | None
    at: float | None
    runs: int


class ParameterDocument(Part):
    """One parameter. ``resolution_percent``: no value tried changes the score by more; None if the
    measurements give no information. ``text``: the same in words.
    """

    name: str
    baseline: Value | None
    standing: EffectState
    resolution_percent: float | None
    text: str
    levels: list[LevelDocument]


class PairDocument(Effect):
    """Two parameters whose interaction is clear: the time with both ``values``, divided by the
    combined effect of each alone.
    """

    names: tuple[str, str]
    values: tuple[Value | None, Value | None]
    runs: int
    text: str


class EffectsDocument(Part):
    """The effects of all parameters, the most important first. ``blocks``: number of blocks used,
    of ``blocks_measured``. ``reason``: why there are no effects, "" if there are some.
    """

    worth: str = Field(description="How reliable these effects are, in one sentence.")
    blocks: int
    blocks_measured: int
    runs: int
    parameters: list[ParameterDocument]
    pairs: list[PairDocument]
    reason: str


def effects_document(of: ParameterEffects) -> EffectsDocument:
    """Build the document for the effects of all parameters."""
    return EffectsDocument(
        worth=WORTH,
        blocks=of.blocks,
        blocks_measured=of.blocks_measured,
        runs=of.arms,
        parameters=[
            ParameterDocument(
                name=one.name,
                baseline=one.baseline,
                standing=one.standing,
                resolution_percent=None if math.isinf(one.resolution) else 100.0 * one.resolution,
                text=parameter_text(one),
                levels=[_level(level) for level in one.levels],
            )
            for one in of.parameters
        ],
        pairs=[
            PairDocument(
                **_effect(pair.estimate),
                names=pair.names,
                values=pair.values,
                runs=pair.arms,
                text=pair_text(pair),
            )
            for pair in of.pairs
        ],
        reason=of.reason,
    )


def _level(level: Level) -> LevelDocument:
    return LevelDocument(**_effect(level.estimate), value=level.value, at=level.at, runs=level.arms)


def parameter_of(of: ParameterDocument) -> ParameterEffect:
    """Convert a parameter's document back to its effect."""
    percent = of.resolution_percent
    return ParameterEffect(
        of.name,
        of.baseline,
        of.standing,
        math.inf if percent is None else percent / 100.0,
        tuple(
            Level(v.value, Estimate(v.ratio, v.lower_ratio, v.upper_ratio), v.runs, v.at)
            for v in of.levels
            if v.ratio is not None and v.lower_ratio is not None and v.upper_ratio is not None
        ),
    )


def _effect(of: Estimate) -> dict[str, float | None]:
    return effect(of.ratio, of.lower, of.upper)


def level_text(level: Level) -> str:
    """ "64: 5.1% faster (95% interval 3.0% to 7.1% faster), in 12 runs"."""
    e = level.estimate
    runs = "1 run" if level.arms == 1 else f"{level.arms} runs"
    if e.lower == e.upper:  # what the others are compared with
        return f"{value_text(level.value)}: the baseline's value, in {runs}"
    effect = f"{faster(e.ratio)} (95% interval {interval(e.lower, e.upper)})"
    return f"{value_text(level.value)}: {effect}, in {runs}"


def parameter_text(of: ParameterEffect) -> str:
    """Describe in words what is known about a parameter."""
    best, e = of.strongest, of.strongest.estimate
    if of.standing is EffectState.CLEAR:
        return (
            f"{value_text(best.value)} is {faster(e.ratio)} than {value_text(of.baseline)} "
            f"(95% interval {interval(e.lower, e.upper)})"
        )
    if of.standing is EffectState.INERT:
        return f"inert: no value tried changes the score by more than {_percent(of.resolution)}"
    if 100.0 * of.resolution > _MOST_PERCENT:
        return "too little was tried to tell"
    return f"no effect found; one of up to {_percent(of.resolution)} is possible"


def pair_text(of: PairEffect) -> str:
    """Describe the interaction of two parameters in words."""
    (one, other), (first, second), e = of.names, of.values, of.estimate
    return (
        f"{one} = {value_text(first)} with {other} = {value_text(second)} is {faster(e.ratio)} "
        f"than their separate effects together (95% interval {interval(e.lower, e.upper)})"
    )


def _percent(fraction: float) -> str:
    return f"{100.0 * fraction:.1f}%"
