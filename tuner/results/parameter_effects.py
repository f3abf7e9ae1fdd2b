"""The effect of each parameter: estimates of the search model, for people. Pure.

No decision rests on them, and they certify nothing.

The effect of a value is that of setting it instead of the baseline's, averaged over the other
settings with which the campaign measured (partial dependence). Its interval comes from the model's
posterior. The largest possible effect of a parameter is derived from the measurements alone: the
prior favours small effects, and would declare a parameter inert that was hardly tried. For a normal
prior of variance p and a posterior of mean m and variance s, the measurements alone imply a mean of
m / (1 - s / p) and a variance of s / (1 - s / p).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from tuner.judge.score import margin
from tuner.model import BASELINE, Configuration, Trial, Value
from tuner.propose.effects import EffectsModel, Evidence
from tuner.propose.encoding import Axis, Encoding, Floats, Tunable
from tuner.records.estimate import NORMAL_95, Estimate, is_clear
from tuner.records.parameter_effects import (
    EffectState,
    Level,
    PairEffect,
    ParameterEffect,
    ParameterEffects,
)
from tuner.text import log_ratio, ratio_of

#: Maximum number of arms the model is fitted to; if there are more, blocks are sampled evenly.
MOST_ARMS = 2000
#: Maximum number of values shown for a parameter.
_MOST_LEVELS = 24
#: Probability of calling any pair clear when none interacts.
_PAIRS_ERROR = 0.05
#: Initial guess for the variance of a component's log time in one run, the same as the search's.
_NOISE = 0.1**2


@dataclass(frozen=True, slots=True)
class _Fit:
    """The model, and the configurations that it was fitted to with their numbers of arms."""

    encoding: Encoding
    model: EffectsModel
    arms: Mapping[Configuration, int]


def parameter_effects(
    tunables: Mapping[str, Tunable],
    trials: Sequence[Trial],
    scored: Sequence[Mapping[int, float]],
    weights: Sequence[float],
    delta: float,
) -> ParameterEffects:
    """Return the effects of all searched parameters.

    ``scored``: for each complete block, the log score of every trial in it. ``weights``: of the
    components in the score. ``delta``: the smallest difference worth acting on, as a fraction.
    """
    used = _evenly(scored)
    arms = sum(map(len, used))
    baseline = trials[BASELINE].configuration if trials else Configuration()
    numbers = sorted({n for block in used for n in block if n < len(trials)})
    configurations = list(
        dict.fromkeys(c for n in numbers if (c := trials[n].configuration) != baseline)
    )
    if not configurations:
        reason = "only the baseline has been measured"
        return ParameterEffects(len(used), len(scored), arms, (), (), reason)
    fit = _fit_of(tunables, trials, used, configurations, weights)
    effects = [
        effect
        for number, axis in enumerate(fit.encoding.axes)
        if (effect := _parameter(fit, number, axis, margin(delta))) is not None
    ]
    order = list(EffectState)
    effects.sort(key=lambda e: (order.index(e.standing), *_rank(e)))
    return ParameterEffects(len(used), len(scored), arms, tuple(effects), tuple(_pairs(fit)))


def _rank(effect: ParameterEffect) -> tuple[float, str]:
    """Sort key: clear effects by size; others by how large they may be."""
    size = abs(log_ratio(effect.strongest.estimate.ratio))
    return -(size if effect.standing is EffectState.CLEAR else effect.resolution), effect.name


def _evenly(scored: Sequence[Mapping[int, float]]) -> Sequence[Mapping[int, float]]:
    """Return all blocks, or an evenly spaced sample with about MOST_ARMS arms."""
    total = sum(map(len, scored))
    if total <= MOST_ARMS:
        return scored
    count = max(1, len(scored) * MOST_ARMS // total)
    positions = np.linspace(0, len(scored) - 1, count).round().astype(int)
    return [scored[int(place)] for place in positions]


def _fit_of(
    tunables: Mapping[str, Tunable],
    trials: Sequence[Trial],
    used: Sequence[Mapping[int, float]],
    configurations: Sequence[Configuration],
    weights: Sequence[float],
) -> _Fit:
    encoding = Encoding(tunables, trials[BASELINE].configuration, configurations)
    row = {configuration: number for number, configuration in enumerate(configurations)}
    arms = [
        (row.get(trials[trial].configuration, -1), number, score)
        for number, block in enumerate(used)
        for trial, score in block.items()
        if trial < len(trials)
    ]
    evidence = Evidence(
        np.array([of for of, _, _ in arms], np.int64),
        np.array([block for _, block, _ in arms], np.int64),
        np.array([score for _, _, score in arms])[:, None],
    )
    noise = _NOISE * math.fsum(weight**2 for weight in weights)
    features = encoding.features(configurations)
    # The report says what the measurements alone allow, whatever was probable before.
    model = EffectsModel(encoding, features, evidence, [noise], sparse=False)
    counts = Counter(of for of, _, _ in arms)
    return _Fit(encoding, model, {c: counts[number] for c, number in row.items()})


def _parameter(fit: _Fit, number: int, axis: Axis, least: float) -> ParameterEffect | None:
    """Return the effect of one parameter; None if only the baseline's value was measured."""
    baseline = fit.encoding.baseline.as_dict().get(axis.name)
    counts: Counter[Value | None] = Counter()
    for configuration, arms in fit.arms.items():
        counts[_level(axis, configuration.as_dict().get(axis.name))] += arms
    if not set(counts) - {_level(axis, baseline)}:
        return None
    counts.setdefault(_level(axis, baseline), 0)
    values = _levels_to_show(axis, counts, _level(axis, baseline))
    features = np.zeros((len(values), fit.encoding.width))
    features[:, fit.encoding.groups[number]] = [axis.features(value) for value in values]
    score = fit.model.outputs[0]
    mean, variance = score.predict(_averaged(fit, number, features))
    prior = float(score.variances[number]) * (features**2).sum(axis=1)
    numbers = [value for value in values if axis.knots.size and _is_number(value)]
    levels = tuple(
        Level(value, _estimate(m, v), counts[value], _at(axis, value, numbers))
        for value, m, v in zip(values, mean, variance, strict=True)
    )
    clear = any(is_clear(level.estimate.lower, level.estimate.upper) for level in levels)
    most = _most(mean, variance, prior)
    standing = (
        EffectState.CLEAR if clear else EffectState.INERT if most <= least else EffectState.OPEN
    )
    resolution = ratio_of(most) - 1.0
    return ParameterEffect(axis.name, baseline, standing, resolution, levels)


def _averaged(fit: _Fit, number: int, features: Floats) -> Floats:
    """Return the design rows that predict the effects of one parameter, averaged over the others as
    measured.

    ``features``: those of the parameter alone. Interactions are products, so the mean of the others
    stands for all of them.
    """
    encoding, group = fit.encoding, fit.encoding.groups[number]
    total = sum(fit.arms.values())
    shares = np.array([arms / total for arms in fit.arms.values()])
    others = shares @ encoding.features(list(fit.arms))
    mixed = np.tile(others, (len(features), 1))
    mixed[:, group] = features[:, group]
    columns_of = [features, np.zeros((len(features), len(fit.model.repeated)))]
    for pair in fit.model.pairs:
        columns = encoding.interaction(mixed, pair)
        columns_of.append(columns if number in encoding.pairs[pair] else np.zeros_like(columns))
    return np.hstack(columns_of)


def _level(axis: Axis, value: Value | None) -> Value | None:
    """The level of a value: a flag that is off counts as not set."""
    return None if value is False else value


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _levels_to_show(
    axis: Axis, counts: Mapping[Value | None, int], baseline: Value | None
) -> list[Value | None]:
    """Return numbers in order, including both ends and the baseline's; words; then "not set"."""
    numbers = sorted(v for v in counts if isinstance(v, int) and not isinstance(v, bool))
    if len(numbers) > _MOST_LEVELS:
        positions = np.linspace(0, len(numbers) - 1, _MOST_LEVELS).round().astype(int)
        few = {numbers[int(place)] for place in positions}
        numbers = [number for number in numbers if number in few or number == baseline]
    words = sorted((v for v in counts if isinstance(v, str | bool)), key=str)
    return [*numbers, *words, *([None] if None in counts else [])]


def _at(axis: Axis, value: Value | None, numbers: Sequence[Value | None]) -> float | None:
    if value not in numbers or not isinstance(value, int):
        return None
    logarithmic = axis.logarithmic and all(isinstance(n, int) and n > 0 for n in numbers)
    low, here, high = (
        math.log(v) if logarithmic else float(v)
        for v in (numbers[0], value, numbers[-1])
        if isinstance(v, int)
    )
    return (here - low) / (high - low) if high > low else 0.5


def _most(mean: Floats, variance: Floats, prior: Floats) -> float:
    """Largest log difference of any of these values that the measurements alone allow; infinite if
    they add nothing to the prior.
    """
    information = 1.0 - variance[prior > 0.0] / prior[prior > 0.0]
    if not information.size or information.min() < 1e-6:
        return math.inf
    alone = mean[prior > 0.0] / information
    return float((np.abs(alone) + NORMAL_95 * np.sqrt(variance[prior > 0.0] / information)).max())


def _estimate(mean: float, variance: float) -> Estimate:
    side = NORMAL_95 * math.sqrt(variance)
    return Estimate(*map(ratio_of, (mean, mean - side, mean + side)))


def _pairs(fit: _Fit) -> list[PairEffect]:
    """Return the pairs with a clear interaction, largest first."""
    encoding, model, score = fit.encoding, fit.model, fit.model.outputs[0]
    start = encoding.width + len(model.repeated)
    effects = []
    empty = np.zeros((1, encoding.width))
    for pair in model.pairs:
        width = encoding.interaction(empty, pair).shape[1]
        of = slice(start, start + width)
        start += width
        mean, covariance = score.mean[of], score.covariance[of, of]
        strength = float(mean @ np.linalg.pinv(covariance, hermitian=True) @ mean)
        if float(chdtrc(width, strength)) * len(encoding.pairs) > _PAIRS_ERROR:
            continue
        if (effect := _pair(fit, pair, of)) is not None:
            effects.append(effect)
    return sorted(effects, key=lambda e: -abs(log_ratio(e.estimate.ratio)))


def _pair(fit: _Fit, pair: int, of: slice) -> PairEffect | None:
    """Return the combination of values that deviates most from the sum of its separate effects;
    None if no deviation is clear.
    """
    encoding, score = fit.encoding, fit.model.outputs[0]
    axes = [encoding.axes[number] for number in encoding.pairs[pair]]
    counts: Counter[tuple[Value | None, ...]] = Counter()
    example: dict[tuple[Value | None, ...], Configuration] = {}
    for configuration, arms in fit.arms.items():
        values = configuration.as_dict()
        both = tuple(_level(axis, values.get(axis.name)) for axis in axes)
        counts[both] += arms
        example.setdefault(both, configuration)
    combinations = list(counts)
    columns = encoding.interaction(
        encoding.features([example[both] for both in combinations]), pair
    )
    mean = columns @ score.mean[of]
    variance = np.maximum(((columns @ score.covariance[of, of]) * columns).sum(axis=1), 0.0)
    clear = np.abs(mean) > NORMAL_95 * np.sqrt(variance)
    if not clear.any():
        return None
    best = int(np.where(clear, np.abs(mean), -1.0).argmax())
    first, second = combinations[best]
    return PairEffect(
        (axes[0].name, axes[1].name),
        (first, second),
        _estimate(float(mean[best]), float(variance[best])),
        counts[first, second],
    )
