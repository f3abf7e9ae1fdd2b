"""Confidence intervals and sequences: the means that the e-value test does not reject.

Owns the inversion of the test in `evalue`. E(D - m0) depends on m0 only through T and increases
with it, so one critical T per n and threshold gives every interval in closed form: mean -+ T*
s / sqrt(n). The interval excludes m0 exactly when E reaches the threshold against m0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tuner.judge.evalue import MIN_PAIRS, Floats, Moments, log_e_from_moments, running_moments
from tuner.judge.levels import check_alpha

# Search range for log of the critical T; beyond the upper end E has reached its bound.
_LOG_T_RANGE = (-40.0, 40.0)
# Points per round of the search, and rounds: enough for every digit of log T.
_GRID = 129
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds on a mean difference, log units; infinite if the data give no bound."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(f"interval needs lower <= upper, got {self.lower} and {self.upper}")

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper


@lru_cache(maxsize=4096)
def critical_t(n: int, threshold: float) -> float:
    """Return the T at which E_n reaches `threshold`; infinite if no T does, and below n = 3.

    Below n = 3 no decision is allowed, so there is no bound. Raises ValueError unless threshold is
    above 1.
    """
    if not threshold > 1.0:
        raise ValueError(f"threshold must be above 1, got {threshold}")
    if n < MIN_PAIRS:
        return math.inf
    goal = math.log(threshold)
    low, high = _LOG_T_RANGE
    # E increases with T. Each round keeps one of the intervals of a grid.
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        mean = np.exp(grid) / math.sqrt(n)
        log_e = log_e_from_moments(np.asarray(n), mean, np.asarray(1.0))
        above = int(np.searchsorted(log_e, goal))
        if above == _GRID:
            return math.inf
        low, high = float(grid[max(above - 1, 0)]), float(grid[above])
    return math.exp(high)


def bounds(m: Moments, threshold: float) -> tuple[Floats, Floats]:
    """Lower and upper bound of each set of differences, each at `threshold`; shapes as m.n."""
    counts, which = np.unique(m.n, return_inverse=True)
    critical = np.array([critical_t(int(n), threshold) for n in counts])[which].reshape(m.n.shape)
    unit = np.sqrt(m.variance / np.maximum(m.n, 1))
    with np.errstate(invalid="ignore"):
        half = np.where(np.isinf(critical), np.inf, critical * unit)
    return m.mean - half, m.mean + half


def confidence_interval(differences: Sequence[float] | Floats, *, alpha: float) -> Interval:
    """Interval for the mean of `differences`, shape (n,), valid at any stopping time.

    alpha: its total error, half of it for each end (Ville: threshold 2/alpha). The interval
    excludes a mean m0 <=> E(D - m0) or E(m0 - D) >= 2/alpha.

    Unbounded for fewer than three differences. Raises ValueError for values that are not finite,
    and for an alpha that is not between 0 and 1.
    """
    check_alpha(alpha)
    if len(differences) == 0:
        return Interval(-math.inf, math.inf)
    lower, upper = bounds(running_moments(differences), 2.0 / alpha)
    return Interval(float(lower[-1]), float(upper[-1]))
