"""Group-sequential boundaries: O'Brien-Fleming, and Lan and DeMets' error spending.

Owns the classic alternative to e-values, for tests whose looks are planned beforehand: as a
reference, and for small effects, where it has more power. The joint distribution of the looks is
integrated numerically (Armitage, McPherson and Rowe 1969): with information fractions t_1 < ... <
t_K the score process B is a Brownian motion observed at t_k, Z_k = B(t_k) / sqrt(t_k), and a test
stops at the first k with Z_k >= c_k (or |Z_k| >= c_k).

Boundaries are for a known standard deviation; `t_boundaries` carries them over to t statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import Floats
from tuner.judge.special import brentq, ndtr, ndtri, stdtrit

# Nodes of the quadrature over the region in which a test goes on; twice as many change the 12th
# digit of what 50 looks give.
_NODES: Final = 120
# Standard deviations below the mean that a one-sided test is followed down to, and the boundary of
# a look at which nothing is spent.
_FAR: Final = 9.0
_LARGEST: Final = 38.0


class Spending(StrEnum):
    """How much of alpha may be spent by information fraction t (Lan and DeMets 1983).

    obrien_fleming: 2 - 2 Phi(z_{alpha/2} / sqrt(t)), late; pocock: alpha ln(1 + (e - 1) t), evenly.
    """

    OBRIEN_FLEMING = "obrien_fleming"
    POCOCK = "pocock"

    def spent(self, alpha: float, fraction: float) -> float:
        """The part of one-sided `alpha` spent by `fraction` (0 to 1)."""
        if fraction <= 0.0:
            return 0.0
        if self is Spending.POCOCK:
            return alpha * math.log1p((math.e - 1.0) * fraction)
        return 2.0 * float(ndtr(float(ndtri(alpha / 2.0)) / math.sqrt(fraction)))


def obrien_fleming(looks: int, alpha: float, *, two_sided: bool = False) -> Floats:
    """Boundaries c_k = C sqrt(K / k) of `looks` equally spaced looks, shape (looks,).

    C makes P(ever Z_k >= c_k) = alpha (of |Z_k| where two-sided). Source: O'Brien and Fleming
    (1979). Raises ValueError unless looks >= 1 and 0 < alpha < 1/2.
    """
    _check_alpha(alpha)
    if looks < 1:
        raise ValueError(f"looks must be at least 1, got {looks}")
    return np.asarray(_obrien_fleming(looks, alpha, two_sided), dtype=np.float64)


@lru_cache(maxsize=256)
def _obrien_fleming(looks: int, alpha: float, two_sided: bool) -> tuple[float, ...]:
    fractions = np.arange(1, looks + 1) / looks
    shape = 1.0 / np.sqrt(fractions)

    def excess(constant: float) -> float:
        exits = exit_probabilities(constant * shape, fractions, two_sided=two_sided)
        return float(exits.sum()) - alpha

    low = -float(ndtri(alpha / 2.0 if two_sided else alpha))
    constant = float(brentq(excess, 0.5 * low, 2.0 * low + 1.0, xtol=1e-10))
    return tuple(float(c) for c in constant * shape)


def lan_demets(
    fractions: Sequence[float] | Floats,
    alpha: float,
    spending: Spending = Spending.OBRIEN_FLEMING,
    *,
    two_sided: bool = False,
) -> Floats:
    """Boundaries that spend alpha as `spending` says at the information fractions looked at.

    fractions: increasing, in (0, 1], shape (looks,); neither their number nor their values need
    be fixed beforehand, as long as they do not depend on the results. Two-sided: alpha / 2 is
    spent on each side. A look at which next to nothing may be spent has a boundary no data reach.
    Raises ValueError unless the fractions increase within (0, 1] and 0 < alpha < 1/2.
    """
    _check_alpha(alpha)
    times = _checked_fractions(fractions)
    side = alpha / 2.0 if two_sided else alpha
    found = np.empty(times.size)
    process = _Process(two_sided, drift=0.0)
    before = 0.0
    for k, fraction in enumerate(times):
        spent = spending.spent(side, float(fraction))
        found[k] = process.boundary(float(fraction), spent - before)
        process.go_on(float(fraction), float(found[k]))
        before = spent
    return found


def exit_probabilities(
    boundaries: Sequence[float] | Floats,
    fractions: Sequence[float] | Floats,
    *,
    two_sided: bool = False,
    drift: float = 0.0,
) -> Floats:
    """P(the test first crosses its boundary at look k), shape (looks,); their sum is its power.

    drift: mean of Z at fraction 1, that is effect / sd * sqrt(n_max); 0 gives the error. Two-sided:
    both ways of crossing together. Raises ValueError for boundaries not above 0, for shapes that
    differ, and for fractions that do not increase within (0, 1].
    """
    limits, times = np.asarray(boundaries, dtype=np.float64), _checked_fractions(fractions)
    if limits.shape != times.shape:
        raise ValueError(f"need a boundary for each look, got {limits.size} for {times.size}")
    if not bool(np.all(limits > 0.0)):
        raise ValueError("boundaries must be above 0")
    process = _Process(two_sided, drift)
    found = np.empty(times.size)
    for k, fraction in enumerate(times):
        limit = float(limits[k])
        found[k] = process.crossing(float(fraction), limit)
        if two_sided:
            found[k] += process.crossing(float(fraction), limit, below=True)
        process.go_on(float(fraction), limit)
    return found


def t_boundaries(
    boundaries: Sequence[float] | Floats, pairs: Sequence[int] | NDArray[np.int64]
) -> Floats:
    """Boundaries for one-sample t statistics of `pairs` differences with the same tail areas.

    The significance-level approach (Jennison and Turnbull 2000, section 3.8): close to exact
    unless the first look comes at very few pairs. Raises ValueError unless every number of pairs
    is at least 2 and there is one for each boundary.
    """
    limits, n = np.asarray(boundaries, dtype=np.float64), np.asarray(pairs, dtype=np.int64)
    if limits.shape != n.shape:
        raise ValueError(f"need a number of pairs for each boundary, got {n.size}")
    if not bool(np.all(n >= 2)):
        raise ValueError("every look needs at least 2 pairs")
    return np.asarray(-stdtrit(n - 1, ndtr(-limits)), dtype=np.float64)


class _Process:
    """The density of B over the paths that have not crossed yet, on quadrature nodes."""

    def __init__(self, two_sided: bool, drift: float) -> None:
        self._two_sided = two_sided
        self._drift = drift
        self._time = 0.0
        self._at = np.zeros(1)
        self._mass = np.ones(1)  # density times quadrature weight

    def crossing(self, time: float, limit: float, *, below: bool = False) -> float:
        """P(B(time) is past the boundary and no earlier look was)."""
        sign = -1.0 if below else 1.0
        gap = limit * math.sqrt(time) - sign * (self._at + self._drift * (time - self._time))
        return float(self._mass @ ndtr(-gap / math.sqrt(time - self._time)))

    def boundary(self, time: float, probability: float) -> float:
        """The limit at which `crossing` is `probability`."""
        if probability <= self.crossing(time, _LARGEST):
            return _LARGEST
        return float(
            brentq(lambda c: self.crossing(time, c) - probability, -_FAR, _LARGEST, xtol=1e-12)
        )

    def go_on(self, time: float, limit: float) -> None:
        """Keep the paths that have not crossed at `time`."""
        high = limit * math.sqrt(time)
        centre, reach = self._drift * time, _FAR * math.sqrt(time)
        low = -high if self._two_sided else min(centre - reach, high - reach)
        low, high = max(low, centre - reach), min(high, centre + reach)
        nodes, weights = _quadrature()
        at = low + (nodes + 1.0) * max(high - low, 0.0) / 2.0
        step = math.sqrt(time - self._time)
        moved = at[:, None] - self._at - self._drift * (time - self._time)
        density = np.exp(-0.5 * (moved / step) ** 2) @ self._mass / (step * math.sqrt(math.tau))
        self._time, self._at = time, at
        self._mass = density * weights * max(high - low, 0.0) / 2.0


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must be between 0 and 1/2, got {alpha}")


def _checked_fractions(fractions: Sequence[float] | Floats) -> Floats:
    times = np.asarray(fractions, dtype=np.float64)
    if times.ndim != 1 or times.size == 0:
        raise ValueError("information fractions must be a sequence of at least one")
    if not bool(np.all(np.diff(times, prepend=0.0) > 0.0)) or times[-1] > 1.0:
        raise ValueError("information fractions must increase within (0, 1]")
    return times
