"""Bayesian linear regression whose weights are in groups with one variance each. Pure.

    y = X w + noise,    w of group g ~ N(0, v_g I),    noise ~ N(0, s I)

The variances are estimated from the data by restricted maximum likelihood: MacKay's fixed point
(Bayesian interpolation, 1992)

    v_g = (|w_g|^2 + prior) / (gamma_g + 1),    gamma_g = k - tr(C_g) / v_g,

with C the posterior covariance of the weights and k the size of the group. So groups without an
effect shrink towards zero. That is not enough where most groups have none: the prior variance of a
group that may have no effect is then v_g times the probability that it has one (``inclusion``),
which is found in a few passes, since it depends on those of the others. So two groups of which only
their sum is known to have an effect share it. The noise is estimated again in each pass: as long as
every group is taken to have an effect, some of the noise passes for one.

With few rows, everything is computed from the matrix of the rows, M = s I + sum v_g X_g X_g',
otherwise from that of the weights, X'X / s + diag(1 / v): the results are the same, the smaller one
is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from tuner.propose.encoding import Floats
from tuner.propose.inclusion import bayes_factors, inclusion, shared

#: Factor on the prior variance at the start of the iteration. Starting from above lets the model
#: recognise a large effect after a few blocks instead of treating it as noise.
_START = 9.0
#: Minimum variance of a group, relative to its prior guess.
_LEAST = 0.25
#: Passes that determine which groups have an effect: without, and with an earlier fit.
_PASSES = (3, 1)
#: Minimum probability that a group has an effect: later measurements may still show one.
_LEAST_CHANCE = 0.01
#: Weight of the prior guess of the noise, as a number of rows.
_NOISE_TRUST = 4.0
#: Rows per weight below which the matrix of the rows is the faster one.
_FEW_ROWS = 0.6
#: Minimum variance of the noise, and minimum number of rows left to estimate it from.
_LEAST_NOISE, _LEAST_LEFT = 1e-10, 1.0


@dataclass(frozen=True, slots=True)
class Variances:
    """The variance of each group's weights, and of one row's noise."""

    groups: Floats
    noise: float


@dataclass(frozen=True)
class Fit:
    """The posterior of the weights of one output. ``mean``: (weights,); ``slabs``: the variances if
    every group has an effect; ``variances``: these times the probability of that, and the noise
    then; ``inverse``: of the matrix that the regression uses; ``factors``: (groups,), the log
    Bayes factor of each group's effect, 0 for those certain to have one.
    """

    regression: Regression
    mean: Floats
    slabs: Variances
    variances: Variances
    inverse: Floats
    factors: Floats

    @cached_property
    def covariance(self) -> Floats:
        """The posterior covariance of the weights; (weights, weights)."""
        return self.regression.covariance(self.variances, self.inverse)

    @cached_property
    def degrees(self) -> float:
        """Degrees of freedom that the weights take from the noise: the sum of gamma."""
        return float(self.regression.information(self.variances, self.inverse).sum())


class Regression:
    """Regressions of several outputs on the same design."""

    def __init__(
        self,
        design: Floats,
        groups: Sequence[slice],
        free: float,
        absent: Sequence[float] = (),
    ) -> None:
        """``design``: (rows, weights); ``groups``: slices of the weights; ``free``: number of
        independent rows; ``absent``: of each group, the prior probability that it has no effect,
        below 1 and for an empty group 0; () for none.
        """
        self.design = design
        #: The group of each weight; (weights,).
        self.group = np.zeros(design.shape[1], np.int64)
        for number, group in enumerate(groups):
            self.group[group] = number
        self._free = free
        self._sizes = np.bincount(self.group, minlength=len(groups)).astype(np.float64)
        self._doubtful = np.flatnonzero(np.asarray(absent, np.float64) > 0.0)
        self._present = 1.0 - np.asarray(absent, np.float64)[self._doubtful]
        self._weights, self._within = _padded([groups[n] for n in self._doubtful.tolist()])
        self._by_rows = design.shape[0] < _FEW_ROWS * design.shape[1]
        if self._by_rows:
            parts = [design[:, group] for group in groups]
            self._grams = np.stack([part @ part.T for part in parts])
            columns = np.moveaxis(design[:, self._weights], 0, 1)
            self._columns = columns * self._within[:, None, :]
        else:
            self._gram = design.T @ design

    def fit(
        self,
        values: Floats,
        prior: Variances,
        rounds: int,
        start: Fit | None = None,
        *,
        lost: float = 0.0,
        others: Sequence[Floats] | None = None,
    ) -> Fit:
        """Fit one output, ``values`` (rows,). ``prior``: guesses; ``start``: an earlier fit,
        perhaps with the first groups alone, to continue from; None to start from the guesses.
        ``lost``: degrees of freedom that the values have lost before. ``others``: the ``factors``
        of the fits of other outputs, which inform about the same groups; None if this is the only
        output.
        """
        groups, sigma = _START * prior.groups, prior.noise
        if start is not None:
            groups[: len(start.slabs.groups)], sigma = start.slabs.groups, start.slabs.noise
        variances = Variances(groups, sigma)
        free = self._free - lost
        for _ in range(rounds):
            inverse = self._inverse(variances)
            information = self.information(variances, inverse)
            strength = self._strength(values, variances, inverse)
            rest = self._rest(values, variances, inverse)
            groups = np.maximum(
                (strength + prior.groups) / (information + 1.0), _LEAST * prior.groups
            )
            sigma = _noise(rest, free - float(information.sum()), prior.noise)
            variances = Variances(groups, sigma)
        included, factors = self._included(values, variances, start, free, prior.noise, others)
        inverse = self._inverse(included)
        mean = self._mean(values, included, inverse)
        return Fit(self, mean, variances, included, inverse, factors)

    def covariance(self, variances: Variances, inverse: Floats) -> Floats:
        """Return the posterior covariance of the weights; see ``Fit``."""
        if not self._by_rows:
            return inverse
        each = variances.groups[self.group]
        scaled = self.design * each
        return np.diag(each) - scaled.T @ inverse @ scaled

    def _included(
        self,
        values: Floats,
        slabs: Variances,
        start: Fit | None,
        free: float,
        noise: float,
        others: Sequence[Floats] | None,
    ) -> tuple[Variances, Floats]:
        """Return the variances times the probabilities that the groups have an effect, with the
        noise that this leaves, and the log Bayes factors. ``noise``: its prior guess.
        """
        factors = np.zeros(len(slabs.groups))
        if not self._doubtful.size:
            return slabs, factors
        own, chance = slabs.groups[self._doubtful], np.ones(len(slabs.groups))
        if start is not None:
            chance[: len(start.slabs.groups)] = start.variances.groups / start.slabs.groups
        prior = self._present
        if others is not None:
            prior = shared(prior, [self._factors_of(one) for one in others])
        variances = Variances(slabs.groups * chance, slabs.noise)
        for _ in range(_PASSES[start is not None]):
            inverse = self._inverse(variances)
            means = self._mean(values, variances, inverse)[self._weights] * self._within
            here = variances.groups[self._doubtful]
            evidence = bayes_factors(means, self._covariances(here, inverse), here, own)
            chance[self._doubtful] = np.maximum(inclusion(prior, evidence), _LEAST_CHANCE)
            factors[self._doubtful] = evidence
            left = free - float(self.information(variances, inverse).sum())
            rest = self._rest(values, variances, inverse)
            variances = Variances(slabs.groups * chance, _noise(rest, left, noise))
        return variances, factors

    def _factors_of(self, other: Floats) -> Floats:
        """Return the factors of the doubtful groups, 0 for those that the other fit lacked."""
        factors = np.zeros(len(self._sizes))
        factors[: len(other)] = other
        return factors[self._doubtful]

    def _covariances(self, variances: Floats, inverse: Floats) -> Floats:
        """Return the posterior covariance within each doubtful group; (groups, width, width)."""
        prior = variances[:, None, None] * np.eye(self._weights.shape[1])
        if self._by_rows:
            reduction = np.moveaxis(self._columns, 1, 2) @ (inverse @ self._columns)
            return prior - variances[:, None, None] ** 2 * reduction
        inside = self._within[:, :, None] & self._within[:, None, :]
        return np.where(
            inside, inverse[self._weights[:, :, None], self._weights[:, None, :]], prior
        )

    def _mean(self, values: Floats, variances: Variances, inverse: Floats) -> Floats:
        if self._by_rows:
            return variances.groups[self.group] * (self.design.T @ (inverse @ values))
        return inverse @ (self.design.T @ values) / variances.noise

    def information(self, variances: Variances, inverse: Floats) -> Floats:
        """Return the degrees of freedom that each group takes from the noise, gamma; (groups,)."""
        if self._by_rows:
            traces = self._grams.reshape(len(self._sizes), -1) @ inverse.ravel()
            return np.maximum(variances.groups * traces, 0.0)
        spread = np.bincount(self.group, np.diag(inverse), len(self._sizes)) / variances.groups
        return np.maximum(self._sizes - spread, 0.0)

    def _strength(self, values: Floats, variances: Variances, inverse: Floats) -> Floats:
        """Return |w|^2 of each group; (groups,)."""
        if self._by_rows:
            solved = inverse @ values
            strength: Floats = variances.groups**2 * (self._grams @ solved @ solved)
            return strength
        mean = self._mean(values, variances, inverse)
        return np.bincount(self.group, mean**2, len(self._sizes)).astype(np.float64)

    def _rest(self, values: Floats, variances: Variances, inverse: Floats) -> float:
        """Return the sum of the squared residuals."""
        if self._by_rows:
            solved = inverse @ values
            return variances.noise**2 * float(solved @ solved)
        moment, mean = self.design.T @ values, self._mean(values, variances, inverse)
        return float(values @ values - 2.0 * mean @ moment + mean @ self._gram @ mean)

    def _inverse(self, variances: Variances) -> Floats:
        """Invert the matrix of the rows or of the weights."""
        if self._by_rows:
            matrix = np.tensordot(variances.groups, self._grams, 1)
            _diagonal(matrix)[:] += variances.noise
        else:
            matrix = self._gram / variances.noise
            _diagonal(matrix)[:] += 1.0 / variances.groups[self.group]
        return _inverse(matrix)


def _noise(rest: float, left: float, guess: float) -> float:
    """Return the variance of the noise, from the sum of the squared residuals ``rest`` with so many
    degrees of freedom ``left``, and the prior guess.
    """
    estimate = (rest + _NOISE_TRUST * guess) / (max(left, _LEAST_LEFT) + _NOISE_TRUST)
    return max(estimate, _LEAST_NOISE)


def _padded(groups: Sequence[slice]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the weights of each group as a row of one array, and which of its elements are weights
    of the group; both (groups, largest size).
    """
    width = max((group.stop - group.start for group in groups), default=0)
    weights = np.zeros((len(groups), width), np.int64)
    within = np.zeros((len(groups), width), np.bool_)
    for row, group in enumerate(groups):
        size = group.stop - group.start
        weights[row, :size] = np.arange(group.start, group.stop)
        within[row, :size] = True
    return weights, within


def _diagonal(matrix: Floats) -> Floats:
    """Return a view of the diagonal through which it can be changed."""
    view: Floats = np.einsum("ii->i", matrix)
    return view


def _inverse(matrix: Floats) -> Floats:
    """Invert a positive definite matrix."""
    if not matrix.size:
        return matrix
    factor, failed = dpotrf(matrix, lower=1)
    if not failed:
        lower, failed = dpotri(factor, lower=1)
        if not failed:
            # Above its diagonal, `lower` is zero.
            inverse: Floats = lower + lower.T
            _diagonal(inverse)[:] = lower.diagonal()
            return inverse
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)
