"""The e-value: evidence, valid at any stopping time, that a mean difference is above 0.

Owns the right-Haar mixture t-test martingale of Wang and Ramdas (2023) in its one-sided form, and
the moments of paired differences it is computed from. Thresholds and decisions are elsewhere.

With n differences of mean m and sample variance s^2, T = m sqrt(n) / s, nu = n - 1 and prior scale
g:

    G = (1 + n g)^(-1/2) [ (1 + T^2/nu) / (1 + T^2/(nu (1 + n g))) ]^(n/2)
    E = 2 G F_t( T sqrt( n n g / (nu (1 + n g) + T^2) ); df = n )

averaged over the scales g. Written with a = m sqrt(n) and v = nu s^2 (the sum of squares about the
mean), it involves no division by s, so equal differences need no special case; E at s = 0 is its
finite limit. E increases with T. For normal differences and a null mean <= 0, P(ever E >= 1/alpha)
<= alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.special import stdtr

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCALES: Final[tuple[float, ...]] = (0.25, 4.0, 64.0)
"""Prior variances of the standardised effect; widely spaced, to detect small and large effects."""

MIN_PAIRS: Final = 3
"""Minimum number of pairs for any decision: two can agree by chance to any number of digits."""

# Beyond this a square overflows a double; log-time ratios are never near it.
_LARGEST_DIFFERENCE: Final = 1e100
_LARGEST_LOG: Final = math.log(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of one or many sets of paired differences, as the tests need them.

    n: number of pairs; mean: their mean; variance: sample variance (n - 1), 0 if n < 2. The three
    arrays have the same shape, () for a single set.
    """

    n: Ints
    mean: Floats
    variance: Floats

    def log_e_above(self, margin: float = 0.0) -> Floats:
        """Log e-values for "the mean is above `margin`", that is log E(D - margin)."""
        return log_e_from_moments(self.n, self.mean - margin, self.variance)

    def log_e_below(self, margin: float = 0.0) -> Floats:
        """Log e-values for "the mean is below `margin`", that is log E(margin - D)."""
        return log_e_from_moments(self.n, margin - self.mean, self.variance)


def moments(differences: Sequence[float] | Floats) -> Moments:
    """Moments over the last axis; NaN marks a block without this pair.

    differences: shape (..., blocks), log ratios. Raises ValueError for infinite differences.
    """
    x = np.asarray(differences, dtype=np.float64)
    present = ~np.isnan(x)
    x = checked_differences(np.where(present, x, 0.0))
    n = present.sum(axis=-1)
    pairs = np.maximum(n, 1)
    mean = x.sum(axis=-1) / pairs
    centred = np.where(present, x - mean[..., None], 0.0)
    spread = (centred**2).sum(axis=-1) / np.maximum(n - 1, 1)
    variance = np.where(n >= 2, spread, 0.0)
    return Moments(n=n.astype(np.int64), mean=mean, variance=variance)


def running_moments(differences: Sequence[float] | Floats) -> Moments:
    """Moments of the first 1, 2, ..., n differences along the last axis; shapes as `differences`.

    Raises ValueError for values that are not finite, naming the first index.
    """
    x = checked_differences(differences)
    n = np.broadcast_to(np.arange(1, x.shape[-1] + 1, dtype=np.int64), x.shape)
    mean = np.cumsum(x, axis=-1) / n
    # Welford's increments: sums of squares that only grow, free of the cancellation of
    # sum(x^2) - n mean^2.
    step = x[..., 1:] - mean[..., :-1]
    centred_squares = np.zeros_like(x)
    np.cumsum(step**2 * ((n[..., 1:] - 1) / n[..., 1:]), axis=-1, out=centred_squares[..., 1:])
    spread = centred_squares / np.maximum(n - 1, 1)
    variance = np.where(n >= 2, spread, 0.0)
    return Moments(n=n, mean=mean, variance=variance)


def log_e_from_moments(
    n: Ints,
    mean: Floats,
    variance: Floats,
    scales: Sequence[float] = SCALES,
) -> Floats:
    """Log of the mixture e-value for "mean > 0" (formula in the module docstring).

    n, mean, variance: broadcastable arrays. 0.0 if n < 2. If mean and variance are both 0 there is
    no evidence either way and T counts as 0. Raises ValueError for scales that are not positive.
    """
    pairs = np.maximum(n, 2)[..., None].astype(np.float64)
    scale = np.asarray(scales, dtype=np.float64)
    if scale.size == 0 or not bool(np.all(np.isfinite(scale) & (scale > 0.0))):
        raise ValueError(f"scales must be positive numbers, at least one, got {tuple(scales)}")
    signal = mean[..., None] * np.sqrt(pairs)
    noise_squares = variance[..., None] * (pairs - 1.0)
    total = signal**2 + noise_squares
    empty = total <= 0.0
    total = np.where(empty, 1.0, total)
    noise_share = np.where(empty, 1.0, noise_squares / total)
    shrink = 1.0 + pairs * scale * noise_share
    log_growth = np.log1p(pairs * scale)
    argument = np.where(empty, 0.0, signal / np.sqrt(total)) * pairs * np.sqrt(scale / shrink)
    with np.errstate(divide="ignore"):  # a tail that underflows is no evidence: log 0
        log_tail = np.log(2.0 * stdtr(pairs, argument))
    parts = (pairs - 1.0) / 2.0 * log_growth - pairs / 2.0 * np.log(shrink) + log_tail
    mixture: Floats = np.logaddexp.reduce(parts, axis=-1) - math.log(scale.size)
    return np.where(n >= 2, mixture, 0.0)


def e_from_log(log_e: Floats) -> Floats:
    """exp(log_e), capped at the largest double instead of infinity."""
    return np.asarray(np.exp(np.minimum(log_e, _LARGEST_LOG)), dtype=np.float64)


def e_values(differences: Sequence[float] | Floats) -> Floats:
    """Running one-sided e-values E_1, ..., E_n for "the mean difference is above 0".

    differences: shape (..., n), one set of paired differences along the last axis; the result has
    the same shape. E_1 is 1. No decision is allowed before n = MIN_PAIRS. The order of the
    differences changes the path, and so its running maximum, but not the last value.

    Raises ValueError for a difference that is not finite, naming its index. Source: Wang
    and Ramdas (2023), right-Haar mixture t.
    """
    m = running_moments(differences)
    return e_from_log(log_e_from_moments(m.n, m.mean, m.variance))


def e_value(differences: Sequence[float] | Floats) -> float:
    """The last of `e_values` for one set of differences, shape (n,); 1.0 for n < 2."""
    x = np.asarray(differences, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"differences must have one axis, got shape {x.shape}")
    if x.size == 0:
        return 1.0
    return float(e_values(x)[-1])


def checked_differences(differences: Sequence[float] | Floats) -> Floats:
    """Return `differences` as an array; ValueError, naming the index, if one is not finite."""
    x = np.asarray(differences, dtype=np.float64)
    if x.ndim == 0:
        raise ValueError("differences must be a sequence, got a single number")
    bad = ~(np.abs(x) <= _LARGEST_DIFFERENCE)
    if bool(bad.any()):
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        where = index[0] if len(index) == 1 else index
        raise ValueError(f"difference at index {where} is not a finite number: {x[index]}")
    return x
