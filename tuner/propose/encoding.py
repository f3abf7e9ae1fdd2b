"""Encode configurations as features for a linear model.

Each parameter is an axis. Its effect is a smooth function of the value on the parameter's own scale
(logarithmic if the space says so), with a separate level for "not set". Everything is relative to
the baseline, which is the origin: an effect is a change from it.

The function on an axis has the covariance exp(-distance / length) between values, with a length of
half the range; the correlation of "not set" with the program's default is
`_UNSET_IS_DEFAULT`. The features are its leading principal components, scaled so that a weight of
variance v gives an effect of variance v at a typical value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from search_spaces import Expression, Kind, Parameter, Space
from tuner.model import Configuration, Value

Floats = NDArray[np.float64]

_KNOTS = 12
#: Fraction of the range over which the correlation of two values falls to 1/e.
_LENGTH = 0.5
#: Correlation of "not set" with a value equal to the program's default.
_UNSET_IS_DEFAULT = 0.8
#: Minimum fraction of the prior variance that the features of an axis preserve.
_SHARE_KEPT = 0.97
#: Number of features of each of two parameters that their interaction uses.
_RANK = 2


@dataclass(frozen=True, slots=True)
class Tunable:
    """A part's search space, with the facts of its host and its configuration as found."""

    space: Space
    facts: Mapping[str, int]
    baseline: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter. ``table``: features of the knots, then of words, then of "not set", one row
    each, relative to the baseline. ``words``: the row of each non-numeric value.
    """

    name: str
    table: Floats
    knots: Floats
    low: float
    high: float
    logarithmic: bool
    words: Mapping[Value, int]
    _cache: dict[Value | None, Floats] = field(default_factory=dict, repr=False, compare=False)

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.table.shape[1])

    def features(self, value: Value | None) -> Floats:
        """Return the features of a value, None for "not set"; shape (width,)."""
        features = self._cache.get(value)
        if features is None:
            features = self._cache[value] = self._features(value)
        return features

    def _features(self, value: Value | None) -> Floats:
        level = np.zeros(len(self.table))
        if isinstance(value, int) and not isinstance(value, bool) and self.knots.size:
            at = _scaled(value, self.low, self.high, self.logarithmic)
            level[: self.knots.size] = _weights(self.knots, at)
        else:
            # A word that is not searched counts as "not set".
            level[-1 if value is None else self.words.get(value, -1)] = 1.0
        features: Floats = level @ self.table
        return features


class Encoding:
    """The axes of a campaign's search spaces, relative to its baseline."""

    def __init__(
        self,
        tunables: Mapping[str, Tunable],
        baseline: Configuration,
        others: Iterable[Configuration] = (),
    ) -> None:
        """``others``: configurations that may set parameters that are not searched."""
        self.baseline = baseline
        searched = {
            f"{part}.{parameter.name}": (tunable.space, parameter)
            for part, tunable in tunables.items()
            for parameter in tunable.space.searched
        }
        before = baseline.as_dict()
        defaults = {
            part: tunable.space.in_effect(baseline.part(part), tunable.facts)
            for part, tunable in tunables.items()
        }
        self.axes: list[Axis] = []
        for name, (_, parameter) in searched.items():
            part, _, own = name.partition(".")
            default = defaults[part].get(own) if name not in before else None
            self.axes.append(_axis(name, parameter, default, before.get(name)))
        also: dict[str, list[Value]] = {}
        for configuration in others:
            for name, value in configuration:
                if name not in searched and before.get(name) != value:
                    values = also.setdefault(name, [])
                    if value not in values:
                        values.append(value)
        self.axes += [_words_axis(name, also[name], before.get(name)) for name in sorted(also)]
        starts = np.cumsum([0, *(axis.width for axis in self.axes)])
        #: The slice of features of each axis.
        self.groups = [slice(int(a), int(b)) for a, b in pairwise(starts)]
        self.width = int(starts[-1])
        #: All pairs of axes, by index.
        self.pairs = list(combinations(range(len(self.axes)), 2))
        self._positions = {axis.name: number for number, axis in enumerate(self.axes)}
        #: The features of the baseline.
        self._origin = np.concatenate(
            [np.empty(0), *(axis.features(before.get(axis.name)) for axis in self.axes)]
        )
        positions = self._positions
        coupled = {
            tuple(sorted((positions[one], positions[other])))
            for part, tunable in tunables.items()
            for one, other in _coupled(part, tunable.space)
            if one in positions and other in positions
        }
        #: Indices of the pairs of which one parameter depends on the other according to the space.
        self.coupled = [number for number, pair in enumerate(self.pairs) if pair in coupled]

    def features(self, configurations: Sequence[Configuration]) -> Floats:
        """Return the features of configurations; shape (configurations, width)."""
        features = np.repeat(self._origin[None, :], len(configurations), axis=0)
        before = self.baseline.as_dict()
        for row, configuration in enumerate(configurations):
            values = configuration.as_dict()
            for name in values.keys() | before.keys():
                value = values.get(name)
                # Most settings are as in the baseline.
                if value != before.get(name) and (number := self._positions.get(name)) is not None:
                    features[row, self.groups[number]] = self.axes[number].features(value)
        return features

    def axis(self, name: str) -> tuple[Axis, slice]:
        """Return a parameter's axis and its slice of features."""
        number = self._positions[name]
        return self.axes[number], self.groups[number]

    def partners(self, name: str) -> list[str]:
        """Return the parameters that are coupled with one, or all others if none is."""
        partners = []
        for number in self.coupled:
            names = [self.axes[axis].name for axis in self.pairs[number]]
            if name in names:
                partners += [other for other in names if other != name]
        return partners or [axis.name for axis in self.axes if axis.name != name]

    def interaction(self, features: Floats, pair: int) -> Floats:
        """Return the interaction features of a pair of axes; shape (configurations, up to 4)."""
        one, other = self.pairs[pair]
        own = features[:, self.groups[one]][:, :_RANK]
        right = features[:, self.groups[other]][:, :_RANK]
        width = own.shape[1] * right.shape[1]
        return (own[:, :, None] * right[:, None, :]).reshape(len(features), width)


def _coupled(part: str, space: Space) -> Iterator[tuple[str, str]]:
    """Yield pairs of parameters of which one occurs in a rule of the other: its default, a bound,
    or the condition under which it exists.
    """
    for parameter in space.searched:
        bounds = (parameter.only_if, parameter.at_least, parameter.at_most)
        rules = [rule.expression for rule in bounds if rule is not None]
        rules += [each for each in parameter.defaults.values() if isinstance(each, Expression)]
        for other in {name for rule in rules for name in rule.names} - {parameter.name}:
            yield f"{part}.{parameter.name}", f"{part}.{other}"


def _scaled(value: float, low: float, high: float, logarithmic: bool) -> float:
    """Return a value's position in its range, 0 to 1, clamped to the range."""
    if high <= low:
        return 0.0
    inside = min(max(value, low), high)
    if logarithmic:
        return math.log(inside / low) / math.log(high / low)
    return (inside - low) / (high - low)


def _weights(knots: Floats, at: float) -> Floats:
    """Return linear interpolation weights of knots in ascending order."""
    weights = np.zeros(knots.size)
    right = min(max(int(np.searchsorted(knots, at)), 1), knots.size - 1)
    if knots.size == 1:
        weights[0] = 1.0
        return weights
    share = (at - knots[right - 1]) / (knots[right] - knots[right - 1])
    weights[right - 1], weights[right] = 1.0 - share, share
    return weights


def _axis(name: str, parameter: Parameter, default: Value | None, baseline: Value | None) -> Axis:
    if not parameter.kind.numeric:
        values: list[Value] = [True] if parameter.kind is Kind.BOOLEAN else [*parameter.candidates]
        return _words_axis(name, values, baseline)
    low, high = float(parameter.low), float(parameter.high)
    logarithmic = parameter.kind in (Kind.LOG_INT, Kind.POWER_OF_TWO) and low > 0
    count = min(_KNOTS, max(2, int(high - low) + 1)) if high > low else 1
    knots = np.linspace(0.0, 1.0, count)
    covariance = np.eye(count + 1)
    covariance[:-1, :-1] = np.exp(-np.abs(knots[:, None] - knots[None, :]) / _LENGTH)
    if isinstance(default, int) and not isinstance(default, bool):
        at = _scaled(default, low, high, logarithmic)
        near = _UNSET_IS_DEFAULT * (_weights(knots, at) @ covariance[:-1, :-1])
        covariance[-1, :-1] = covariance[:-1, -1] = near
    origin = np.zeros(count + 1)
    if isinstance(baseline, int) and not isinstance(baseline, bool):
        origin[:-1] = _weights(knots, _scaled(baseline, low, high, logarithmic))
    else:
        origin[-1] = 1.0
    table = _principal(covariance, origin)
    return Axis(name, table, knots, low, high, logarithmic, {})


def _words_axis(name: str, values: Sequence[Value], baseline: Value | None) -> Axis:
    """Build an axis of unordered values: each is as far from the others as from "not set"."""
    baseline = None if baseline is False else baseline
    words = [value for value in values if value is not False]
    if baseline is not None and baseline not in words:
        words.append(baseline)
    origin = np.zeros(len(words) + 1)
    origin[words.index(baseline) if baseline is not None else -1] = 1.0
    table = _principal(np.eye(len(words) + 1), origin)
    rows = {value: row for row, value in enumerate(words)}
    return Axis(name, table, np.empty(0), 0.0, 0.0, False, rows)


def _principal(covariance: Floats, origin: Floats) -> Floats:
    """Return features of levels with this covariance, relative to the level at ``origin``."""
    centred = np.eye(len(covariance)) - origin[None, :]
    values, vectors = np.linalg.eigh(centred @ covariance @ centred.T)
    values, vectors = values[::-1].clip(0.0), vectors[:, ::-1]
    total = float(values.sum())
    if total <= 0.0:
        return np.zeros((len(covariance), 1))
    count = int(np.searchsorted(np.cumsum(values), _SHARE_KEPT * total)) + 1
    # The sign of an eigenvector depends on the library, so it is normalised.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
    table = vectors * signs * np.sqrt(values)
    scale = math.sqrt(total / max(len(covariance) - 1, 1))
    scores: Floats = table[:, :count] / scale
    return scores
