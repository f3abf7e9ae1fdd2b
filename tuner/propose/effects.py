"""Effects of all parameters, estimated from all measurements by a Bayesian linear model. Pure.

The log time of component c in an arm is

    y_c = block + sum over parameters f_p(x_p) + sum over pairs f_pq(x_p, x_q) + own
          + sum over covariates b_c z + noise

where each f = common + special_c: a parameter's effect on all components, and its additional effect
on this one. Most settings affect only some components, where the effect shows much sooner than in
the score, which averages it with the noise of all the others. Both parts are linear in the features
of ``encoding``, with normal weights of mean 0 and one variance per parameter and per pair; ``own``
is the configuration's remaining effect; z is other load during the arm, as far as the
configuration does not explain it. The common part is fitted to the score, the special parts
to the residuals of the components, in turns (backfitting). Block effects are removed by centring,
so that drift costs nothing. The variances are estimated from the data by restricted maximum
likelihood (``regression``), so that parameters without an effect shrink towards zero, the
more so the less likely they are to have one, in view of all outputs (``inclusion``); one noise
variance is estimated from the residuals. A measurement of one configuration thus informs about all
configurations that share a setting with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky

from tuner.propose.encoding import Encoding, Floats
from tuner.propose.one_thread import one_thread
from tuner.propose.regression import Fit, Regression, Variances

Ints = NDArray[np.int64]

#: Prior variance of an effect: 3% (sd) per parameter. With a smaller value, the search would not
#: try what it has not measured.
_EFFECT = 0.03**2
#: Likewise, for the effect of a pair of parameters that are not coupled by the space, or of a
#: single configuration beyond its settings.
_BEYOND = 0.01**2
#: Likewise, for the effect of a scaled covariate.
_LOAD = 0.25
#: Prior variance of a parameter's influence on a covariate, relative to the covariate's own.
_INFLUENCE = 0.05**2
#: Prior probability that a parameter, or a pair that is coupled by the space, has no effect on the
#: score or on a component, and the same for any other pair.
_ABSENT, _NO_INTERACTION = 0.7, 0.95
#: Variance of a configuration's own effect relative to the noise of one run, used for weighting
#: runs.
_OWN_SHARE = 0.1
#: Rounds of the fixed point: from the guesses, and from an earlier fit.
_ROUNDS = (5, 4)
#: Rounds of fitting the common part, then the special parts of the components.
_TURNS = 2
#: Maximum number of pairs of parameters whose interaction is fitted.
_MOST_PAIRS = 16
#: Squared correlation per feature, relative to that expected by chance, above which a pair is
#: fitted.
_SUSPECT = 2.5


@dataclass(frozen=True, slots=True)
class Evidence:
    """The arms measured so far. ``configuration``: (arms,), the index of each arm's configuration,
    -1 for the baseline; ``block``: (arms,); ``values``: (arms, outputs), log times;
    ``covariates``: (arms, covariates), other load during each arm, scaled to effects of about
    1, or None if it is not known.
    """

    configuration: Ints
    block: Ints
    values: Floats
    covariates: Floats | None = None


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior distribution of one output's effects. ``mean``, ``covariance``: of the weights,
    (weights,) and (weights, weights); ``noise``: variance of one run; ``own``: variance of a
    configuration's own effect, for those never repeated; ``variances``: of each parameter's effect
    at a typical value.
    """

    mean: Floats
    covariance: Floats
    noise: float
    own: float
    variances: Floats

    def predict(self, design: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the effect for each row of a design matrix; both (rows,)."""
        variance = ((design @ self.covariance) * design).sum(axis=1)
        return design @ self.mean, np.maximum(variance, 0.0)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw weights at random; shape (weights, count)."""
        factor = cholesky(
            self.covariance + 1e-12 * np.eye(len(self.mean)), lower=True, check_finite=False
        )
        draws: Floats = self.mean[:, None] + factor @ rng.standard_normal((len(self.mean), count))
        return draws


class EffectsModel:
    """Model of the effects of all parameters on each output, fitted to all arms."""

    def __init__(
        self,
        encoding: Encoding,
        features: Floats,
        evidence: Evidence,
        noise: Sequence[float],
        weights: Sequence[float] = (),
        *,
        sparse: bool = True,
    ) -> None:
        """``features``: of the configurations by index, (configurations, width). The first output
        is the score; the others, if any, are the components, with ``weights`` in the score.
        ``noise``: prior guess of the variance of one run, one per output. ``sparse``: most
        parameters and pairs have no effect; otherwise all are estimated as if they had one.
        """
        self.encoding = encoding
        arms = evidence.configuration
        runs = np.bincount(arms[arms >= 0], minlength=len(features))
        #: Indices of the configurations with their own weight: those measured more than once.
        self.repeated = np.flatnonzero(runs >= 2)
        self._index = {int(number): index for index, number in enumerate(self.repeated)}
        own = np.full(len(features) + 1, -1)
        own[self.repeated] = np.arange(len(self.repeated))
        weight = np.where((arms >= 0) & (own[arms] < 0), 1.0 / (1.0 + _OWN_SHARE), 1.0)
        padded = np.vstack([features, np.zeros((1, features.shape[1]))])
        centre = _Centring(evidence.block, weight)
        values = centre(evidence.values)
        groups = [*encoding.groups]
        width = encoding.width
        repeated = centre(_indicators(own[arms], len(self.repeated)))
        main = np.hstack([centre(padded[arms]), repeated])
        free = float(len(arms) - len(np.unique(evidence.block)))
        groups.append(slice(width, main.shape[1]))
        first = [_EFFECT] * len(encoding.axes) + [_BEYOND]
        self._covariates = 0
        if evidence.covariates is not None:
            load = _unexplained(centre(evidence.covariates), main, groups, free)
            self._covariates = load.shape[1]
            groups.append(slice(main.shape[1], main.shape[1] + self._covariates))
            first.append(_LOAD)
            main = np.hstack([main, load])
        #: Indices of the pairs whose interaction is in the model.
        self.pairs: tuple[int, ...] = ()
        with one_thread():
            absent = [_ABSENT] * len(encoding.axes) + [0.0] * (len(groups) - len(encoding.axes))
            regression = Regression(main, groups, free, absent if sparse else ())
            fits = _fit(regression, values, first, noise, weights)
            residuals = values - main @ np.stack(_means(fits, weights), axis=1)
            parts = self._suspects(padded, arms, centre, residuals)
            if parts:
                self.pairs = tuple(pair for pair, _ in parts)
                blocks = [block for _, block in parts]
                ends = np.cumsum([main.shape[1], *(block.shape[1] for block in blocks)])
                groups += [slice(int(a), int(b)) for a, b in pairwise(ends)]
                coupled = set(encoding.coupled)
                first += [_EFFECT if pair in coupled else _BEYOND for pair in self.pairs]
                design = np.hstack([main, *blocks])
                absent += [_ABSENT if p in coupled else _NO_INTERACTION for p in self.pairs]
                regression = Regression(design, groups, free, absent if sparse else ())
                fits = _fit(regression, values, first, noise, weights, fits)
            self.outputs = _posteriors(fits, weights, len(encoding.axes))

    def design(self, features: Floats, arms: Sequence[int] | Ints = ()) -> Floats:
        """Return the design matrix that predicts configurations with these features. ``arms``: the
        index of each among those measured, -1 for a new one.
        """
        own = np.zeros((len(features), len(self.repeated)))
        for row, number in enumerate(arms):
            if number in self._index:
                own[row, self._index[int(number)]] = 1.0
        interactions = [self.encoding.interaction(features, pair) for pair in self.pairs]
        # The effects of a configuration are those without other load.
        load = np.zeros((len(features), self._covariates))
        return np.hstack([features, own, load, *interactions])

    def _suspects(
        self, padded: Floats, arms: Ints, centre: _Centring, residuals: Floats
    ) -> list[tuple[int, Floats]]:
        """Return the pairs, with their design columns, whose interaction is suggested by the
        residuals, or of which one parameter depends on the other according to the space.
        """
        if not len(residuals):
            return []
        scale = np.maximum((residuals**2).mean(axis=0), 1e-300)
        features = padded[arms]
        suspects = []
        coupled = set(self.encoding.coupled)
        for pair in range(len(self.encoding.pairs)):
            columns = centre(self.encoding.interaction(features, pair))
            norm = np.maximum((columns**2).sum(axis=0), 1e-9)
            score = (columns.T @ residuals) ** 2 / norm[:, None] / scale
            strength = float(score.mean(axis=0).max())
            if pair in coupled:
                strength = math.inf
            if strength >= _SUSPECT and columns.any():
                suspects.append((strength, pair, columns))
        suspects.sort(key=lambda each: -each[0])
        return [(pair, columns) for _, pair, columns in suspects[:_MOST_PAIRS]]


class _Centring:
    """Removes block means from columns, and weights the arms."""

    def __init__(self, block: Ints, weight: Floats) -> None:
        _, self._block = np.unique(block, return_inverse=True)
        self._weight = weight
        self._total = np.bincount(self._block, weights=weight)
        self._root = np.sqrt(weight)[:, None]

    def __call__(self, columns: Floats) -> Floats:
        sums = np.zeros((len(self._total), columns.shape[1]))
        np.add.at(sums, self._block, columns * self._weight[:, None])
        centred: Floats = self._root * (columns - (sums / self._total[:, None])[self._block])
        return centred


def _unexplained(load: Floats, design: Floats, groups: Sequence[slice], free: float) -> Floats:
    """Return the part of each covariate (arms, covariates) that the configurations do not explain.

    Otherwise, a parameter that makes others use less of the machine would not be credited with what
    that gains.
    """
    scale = np.sqrt(np.maximum((load**2).mean(axis=0), 1e-12))
    prior = np.full(len(groups), _INFLUENCE)
    with one_thread():
        regression = Regression(design, groups, free)
        fits = [
            regression.fit(column, Variances(prior, 1.0), _ROUNDS[False])
            for column in (load / scale).T
        ]
    unexplained: Floats = load - scale * (design @ np.stack([fit.mean for fit in fits], axis=1))
    return unexplained


def _indicators(numbers: Ints, count: int) -> Floats:
    matrix = np.zeros((len(numbers), count))
    rows = np.flatnonzero(numbers >= 0)
    matrix[rows, numbers[rows]] = 1.0
    return matrix


def _fit(
    regression: Regression,
    values: Floats,
    prior: Sequence[float],
    noise: Sequence[float],
    weights: Sequence[float],
    before: Sequence[Fit] = (),
) -> list[Fit]:
    """Fit the common part, by the score, and the special part of each component.

    ``prior``: guess of each group's variance; ``noise``: of each output's noise; ``before``: fits
    with the first groups alone, to start from.
    """
    guess = np.asarray(prior)
    fits: list[Fit | None] = list(before) or [None] * values.shape[1]

    def fit(output: int, rest: Floats, lost: float = 0.0) -> Fit:
        start = fits[output]
        others = [each.factors for n, each in enumerate(fits) if each is not None and n != output]
        result = regression.fit(
            rest,
            Variances(guess, noise[output]),
            _ROUNDS[start is not None],
            start,
            lost=lost,
            others=others if weights else None,
        )
        fits[output] = result
        return result

    special, lost = np.zeros(regression.design.shape[1]), 0.0
    squares = np.square(weights)
    for _ in range(_TURNS if weights else 1):
        common = fit(0, values[:, 0] - regression.design @ special, lost)
        rest = values - (regression.design @ common.mean)[:, None]
        parts = [fit(output, rest[:, output]) for output in range(1, values.shape[1])]
        special = _weighted(weights, [part.mean for part in parts], special.shape)
        # The noise of the score is the weighted sum of the components' noise, of which the special
        # parts have taken some along.
        lost = float(squares @ [part.degrees for part in parts]) / max(float(squares.sum()), 1e-300)
    return [common, *parts]


def _weighted(weights: Sequence[float], arrays: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
    """Return the weighted sum of arrays of this shape."""
    weighted = np.zeros(shape)
    for weight, array in zip(weights, arrays, strict=True):
        weighted += weight * array
    return weighted


def _means(fits: Sequence[Fit], weights: Sequence[float]) -> list[Floats]:
    """Return the total effects on the score and on each component: common plus special part."""
    common, *parts = (fit.mean for fit in fits)
    return [common + _weighted(weights, parts, common.shape), *(common + part for part in parts)]


def _posteriors(fits: Sequence[Fit], weights: Sequence[float], axes: int) -> list[Posterior]:
    """Return the posterior of the total effects on the score and on each component."""
    common, *parts = fits
    squares = [weight * weight for weight in weights]
    covariances = [part.covariance for part in parts]
    groups = [part.variances.groups for part in parts]
    spread = _weighted(squares, covariances, common.covariance.shape)
    score = _weighted(squares, groups, common.variances.groups.shape)
    variances = [common.variances.groups + score, *groups]
    covariances = [common.covariance + spread, *(common.covariance + c for c in covariances)]
    return [
        Posterior(mean, covariance, fit.variances.noise, float(own[axes]), own[:axes])
        for fit, mean, covariance, own in zip(
            fits, _means(fits, weights), covariances, variances, strict=True
        )
    ]
