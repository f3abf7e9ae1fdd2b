"""Confidence intervals and sequences: the means that the e-value test does not reject.

Owns the inversion of the test in `evalue`. E(D - m0) depends on m0 only through T and increases
with it, so one critical T per n and threshold gives every interval in closed form: mean -+ T*
s / sqrt(n). The interval excludes m0 exactly when E reaches the threshold against m0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import MIN_PAIRS, Floats, Moments, log_e_from_moments, running_moments

# Search range for log of the critical T; beyond the upper end E has reached its bound.
_LOG_T_RANGE = (-40.0, 40.0)
# Points per round of the search, and rounds: enough for every digit of log T.
_GRID = 129
_ROUNDS = 8


class Side(StrEnum):
    """Which ends an interval has: both, or only a `lower` or an `upper` bound."""

    BOTH = "both"
    LOWER = "lower"
    UPPER = "upper"


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


def confidence_interval(
    differences: Sequence[float] | Floats,
    *,
    threshold: float | None = None,
    alpha: float | None = None,
    side: Side = Side.BOTH,
) -> Interval:
    """Interval for the mean of `differences`, shape (n,), valid at any stopping time.

    Pass exactly one of `threshold`, used for each end (so a two-sided interval at the threshold for
    alpha has level 1 - 2 alpha), and `alpha`, the total error of a Ville interval (threshold
    1/alpha, with alpha halved for each end if two-sided). The interval excludes a mean m0 <=>
    E(D - m0) or E(m0 - D) >= threshold.

    Unbounded for fewer than three differences. Raises ValueError for values that are not finite,
    for both or neither of threshold and alpha, and for a threshold not above 1.
    """
    if len(differences) == 0:
        return Interval(-math.inf, math.inf)
    lower, upper = confidence_sequence(differences, threshold=threshold, alpha=alpha, side=side)
    return Interval(float(lower[-1]), float(upper[-1]))


def confidence_sequence(
    differences: Sequence[float] | Floats,
    *,
    threshold: float | None = None,
    alpha: float | None = None,
    side: Side = Side.BOTH,
    intersect: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds after 1, 2, ..., n differences; arguments as for
    `confidence_interval`.

    The whole sequence covers the mean with the stated level. intersect: keep the tightest bounds so
    far, equally valid and never wider, but dependent on the order of the differences. If the
    running bounds contradict each other (lower > upper), either the model does not hold or this is
    one of the rare errors that the level allows.
    """
    level = _threshold_of(threshold, alpha, side)
    m = running_moments(differences)
    lower, upper = bounds(m, level)
    if side is Side.UPPER:
        lower = np.full_like(lower, -np.inf)
    if side is Side.LOWER:
        upper = np.full_like(upper, np.inf)
    if intersect:
        lower = np.maximum.accumulate(lower, axis=-1)
        upper = np.minimum.accumulate(upper, axis=-1)
    return lower, upper


def _threshold_of(threshold: float | None, alpha: float | None, side: Side) -> float:
    if alpha is None and threshold is not None:
        return threshold
    if alpha is None or threshold is not None:
        raise ValueError("give either threshold or alpha")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    return (2.0 if side is Side.BOTH else 1.0) / alpha
