"""What every measurement so far says about every parameter: a Bayesian linear model. Pure.

The log time of component c in an arm is

    y_c = block + sum over parameters f_p(x_p) + sum over pairs f_pq(x_p, x_q) + own + noise

where each f = common + special_c: what a parameter does to all components alike, and what it does
to this one beyond that. Most settings act on some components only, where they show much sooner than
in the score, which averages them with the noise of all the others. Both are features of
``encoding`` with normal weights of mean 0, one variance a parameter and one a pair, and ``own`` is
what the configuration does beyond that. The common part is fitted to the score, the special parts
to what is left of the components, in turns (backfitting). Blocks are taken out by
centring, so that drift costs nothing. The variances are estimated from the data by restricted
maximum likelihood: MacKay's fixed point (Bayesian interpolation, 1992)

    v = (|w|^2 + prior) / (gamma + 1),    gamma = k - tr(C) / v,

with C the posterior covariance of the k weights of a group, so that parameters without an effect
shrink towards none, and one noise variance from what is left. A measurement of one configuration
thus tells of all that share a setting with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotrf, dpotri
from threadpoolctl import threadpool_limits

from tuner.propose.encoding import Encoding, Floats

Ints = NDArray[np.int64]

#: The prior's own guess of an effect's variance: a parameter does 2% (sd). Smaller guesses stop
#: the search from trying what it has not measured.
_EFFECT = 0.02**2
#: The same for what a pair, or a single configuration, does beyond its parts.
_BEYOND = 0.01**2
#: Times the guess, where the estimate of a variance starts: from above, so that a large effect is
#: seen for what it is after a few blocks, not for noise.
_START = 9.0
#: Variance of what a configuration does beyond its parts, relative to the noise of one run, as far
#: as runs are weighed against each other.
_OWN_SHARE = 0.1
#: Rounds of the fixed point: with parameters alone, then, from there, with their interactions.
_ROUNDS = (5, 8)
#: Rounds of fitting what components have in common, then what is special to each.
_TURNS = 2
#: Pairs of parameters whose interaction is fitted.
_MOST_PAIRS = 16
#: Squared correlation per feature, in units of what chance gives, from which a pair is fitted.
_SUSPECT = 2.5
#: Runs' worth of trust in the guess of the noise that the model is given.
_NOISE_TRUST = 4.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The arms measured so far. ``configuration``: (arms,), the number of each arm's configuration
    among those of the encoding; ``block``: (arms,); ``values``: (arms, outputs), log times. An arm
    of the baseline has the number -1.
    """

    configuration: Ints
    block: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is known of one output's effects: weights of mean ``mean`` and covariance
    ``covariance``, (weights,) and (weights, weights); ``noise``: variance of one run;
    ``own``: variance of what a configuration never repeated does beyond its parts; ``variances``:
    of each parameter's effect at a typical value.
    """

    mean: Floats
    covariance: Floats
    noise: float
    own: float
    variances: Floats

    def predict(self, design: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the effect of each row of a design; both (rows,)."""
        variance = ((design @ self.covariance) * design).sum(axis=1)
        return design @ self.mean, np.maximum(variance, 0.0)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Weights drawn at random; shape (weights, count)."""
        factor = cholesky(
            self.covariance + 1e-12 * np.eye(len(self.mean)), lower=True, check_finite=False
        )
        draws: Floats = self.mean[:, None] + factor @ rng.standard_normal((len(self.mean), count))
        return draws


@dataclass(frozen=True, slots=True)
class _Variances:
    """The variance of each group's weights, and of one run's noise."""

    groups: Floats
    noise: float


_Fit = tuple[Floats, Floats, _Variances]
"""The mean of an output's weights, their covariance, and the variances."""


class EffectsModel:
    """The effects of all parameters on each output, fitted to all arms."""

    def __init__(
        self,
        encoding: Encoding,
        features: Floats,
        evidence: Evidence,
        noise: Sequence[float],
        weights: Sequence[float] = (),
    ) -> None:
        """``features``: of the configurations by number, (configurations, width). The first output
        is the score, the others are the components that it weighs by ``weights``, if any.
        ``noise``: a first guess of the variance of one run, an output each.
        """
        self.encoding = encoding
        arms = evidence.configuration
        runs = np.bincount(arms[arms >= 0], minlength=len(features))
        #: The configurations with a weight of their own: those measured more than once.
        self.repeated = np.flatnonzero(runs >= 2)
        self._place = {int(number): place for place, number in enumerate(self.repeated)}
        own = np.full(len(features) + 1, -1)
        own[self.repeated] = np.arange(len(self.repeated))
        weight = np.where((arms >= 0) & (own[arms] < 0), 1.0 / (1.0 + _OWN_SHARE), 1.0)
        padded = np.vstack([features, np.zeros((1, features.shape[1]))])
        centre = _Centring(evidence.block, weight)
        values = centre(evidence.values)
        self._main = centre(padded[arms])
        self._own = centre(_indicators(own[arms], len(self.repeated)))
        groups = [*encoding.groups]
        width = encoding.width
        main = np.hstack([self._main, self._own])
        groups.append(slice(width, width + len(self.repeated)))
        first = [_EFFECT] * len(encoding.axes) + [_BEYOND]
        free = float(len(arms) - len(np.unique(evidence.block)))
        fits = _fit(main, values, groups, first, noise, free, weights)
        #: The pairs whose interaction is in the model, by number.
        self.pairs: tuple[int, ...] = ()
        residuals = values - main @ np.stack([mean for mean, _, _ in _added(fits, weights)], axis=1)
        parts = self._suspects(padded, arms, centre, residuals)
        if parts:
            self.pairs = tuple(pair for pair, _ in parts)
            blocks = [block for _, block in parts]
            ends = np.cumsum([main.shape[1], *(block.shape[1] for block in blocks)])
            groups += [slice(int(a), int(b)) for a, b in pairwise(ends)]
            first += [_BEYOND] * len(blocks)
            before = [variances for _, _, variances in fits]
            whole = np.hstack([main, *blocks])
            fits = _fit(whole, values, groups, first, noise, free, weights, before)
        self.outputs = [
            Posterior(
                mean,
                covariance,
                variances.noise,
                float(variances.groups[len(encoding.axes)]),
                variances.groups[: len(encoding.axes)],
            )
            for mean, covariance, variances in _added(fits, weights)
        ]

    def design(self, features: Floats, arms: Sequence[int] | Ints = ()) -> Floats:
        """The rows that predict configurations with these features. ``arms``: the number of each
        among those measured, -1 for a new one.
        """
        own = np.zeros((len(features), len(self.repeated)))
        for row, number in enumerate(arms):
            if number in self._place:
                own[row, self._place[int(number)]] = 1.0
        interactions = [self.encoding.interaction(features, pair) for pair in self.pairs]
        return np.hstack([features, own, *interactions])

    def _suspects(
        self, padded: Floats, arms: Ints, centre: _Centring, residuals: Floats
    ) -> list[tuple[int, Floats]]:
        """The pairs whose interaction what is left of the values speaks for, or of which the space
        says that one depends on the other, with its columns.
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
    """Takes the blocks' levels out of columns of numbers, and weighs the arms."""

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


def _indicators(numbers: Ints, count: int) -> Floats:
    matrix = np.zeros((len(numbers), count))
    rows = np.flatnonzero(numbers >= 0)
    matrix[rows, numbers[rows]] = 1.0
    return matrix


def _fit(
    design: Floats,
    values: Floats,
    groups: Sequence[slice],
    prior: Sequence[float],
    noise: Sequence[float],
    free: float,
    weights: Sequence[float],
    before: Sequence[_Variances] = (),
) -> list[_Fit]:
    """Fit what all components have in common, by the score, and what is special to each.

    ``prior``: guess of each group's variance; ``noise``: of each output's; ``free``: arms less
    blocks; ``before``: variances found with the first groups alone, to go on from.
    """
    special, outputs = np.zeros(design.shape[1]), list(before)
    turns = _TURNS if weights else 1
    # Matrices this small are inverted many times faster by one thread than by several that wait for
    # each other.
    with threadpool_limits(1, user_api="blas"):
        for _ in range(turns):
            score = values[:, :1] - (design @ special)[:, None]
            common = _fit_of(design, score, groups, prior, noise[:1], free, outputs[:1])
            residuals = values[:, 1:] - (design @ common[0][0])[:, None]
            parts = _fit_of(design, residuals, groups, prior, noise[1:], free, outputs[1:])
            special = _weighted(weights, [mean for mean, _, _ in parts], special.shape)
            outputs = [variances for _, _, variances in (*common, *parts)]
    return [*common, *parts]


def _weighted(weights: Sequence[float], arrays: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
    """The weighted sum of arrays of this shape."""
    weighted = np.zeros(shape)
    for weight, array in zip(weights, arrays, strict=True):
        weighted += weight * array
    return weighted


def _added(fits: Sequence[_Fit], weights: Sequence[float]) -> list[_Fit]:
    """The whole effects on the score and on each component, from what is common and special."""
    (mean, covariance, variances), *parts = fits
    squares = [weight * weight for weight in weights]
    own = _weighted(weights, [part[0] for part in parts], mean.shape)
    spread = _weighted(squares, [part[1] for part in parts], covariance.shape)
    groups = _weighted(squares, [part[2].groups for part in parts], variances.groups.shape)
    score = _Variances(variances.groups + groups, variances.noise)
    return [
        (mean + own, covariance + spread, score),
        *((mean + m, covariance + c, v) for m, c, v in parts),
    ]


def _fit_of(
    design: Floats,
    values: Floats,
    groups: Sequence[slice],
    prior: Sequence[float],
    noise: Sequence[float],
    free: float,
    before: Sequence[_Variances],
) -> list[_Fit]:
    """Fit each column of values: weights, their covariance, and the variances."""
    gram, moment = design.T @ design, design.T @ values
    squares = (values**2).sum(axis=0)
    of = np.zeros(design.shape[1], np.int64)
    for number, group in enumerate(groups):
        of[group] = number
    sizes = np.bincount(of, minlength=len(groups)).astype(np.float64)
    guess = np.asarray(prior)
    fits = []
    for output in range(values.shape[1]):
        variance, sigma = _START * guess, float(noise[output])
        if before:
            start = before[output]
            variance[: len(start.groups)], sigma = start.groups, start.noise
        for _ in range(_ROUNDS[bool(before)]):
            covariance = _inverse(gram / sigma + np.diag(1.0 / variance[of]))
            mean = covariance @ moment[:, output] / sigma
            spread = np.bincount(of, np.diag(covariance), len(sizes)) / variance
            information = np.maximum(sizes - spread, 0.0)
            strength = np.bincount(of, mean**2, len(sizes))
            variance = np.maximum((strength + guess) / (information + 1.0), 0.25 * guess)
            rest = squares[output] - 2.0 * mean @ moment[:, output] + mean @ gram @ mean
            trust = _NOISE_TRUST * float(noise[output])
            free_left = max(free - float(information.sum()), 0.0)
            sigma = max((float(rest) + trust) / (free_left + _NOISE_TRUST), 1e-10)
        fits.append((mean, covariance, _Variances(variance, sigma)))
    return fits


def _inverse(matrix: Floats) -> Floats:
    """The inverse of a positive definite matrix."""
    if not matrix.size:
        return matrix
    factor, failed = dpotrf(matrix, lower=1)
    if not failed:
        lower, failed = dpotri(factor, lower=1)
        if not failed:
            inverse: Floats = np.tril(lower) + np.tril(lower, -1).T
            return inverse
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)
