"""The robust e-value: a bet on the signs of paired differences that does not assume normality.

Owns the sign-flip test. It is exact whenever the order within each pair was decided by a fair coin,
that is, for any null under which each difference is symmetric about 0, whatever the distribution or
the serial dependence of the magnitudes. It costs power, and n pairs can never give more than 2^n:
equal differences reach 18, 33, 62 and 119 after 5, 6, 7 and 8 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats, checked_differences, e_from_log
from tuner.judge.levels import check_alpha

STAKES: Final[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The stakes lambda that are averaged: small for small steady effects, large for clear ones."""


def sign_flip_e_values(differences: Sequence[float] | Floats) -> Floats:
    """Running e-values for "the differences tend to be above 0", shape (..., n) as `differences`.

    E_k is the mean over lambda in STAKES of the product over i <= k of 1 + tanh(lambda x_i / r_i),
    with r_i the root mean square of x_1..x_i. Given the magnitudes, each factor is 1 +- the same
    amount, so the mean under fair signs is 1 and P(ever E >= 1/alpha) <= alpha: the thresholds are
    Ville's, not the calibrated ones. The value depends on the order of the differences.

    Raises ValueError for a difference that is not finite, naming its index.
    """
    x = checked_differences(differences)
    rms = np.sqrt(np.cumsum(x**2, axis=-1) / np.arange(1, x.shape[-1] + 1))
    unit = np.divide(x, rms, out=np.zeros_like(x), where=rms > 0.0)
    # log(1 + tanh z) = log 2 - log(1 + exp(-2 z)), exact where tanh rounds to -1.
    twice = 2.0 * unit[..., None, :] * np.asarray(STAKES)[:, None]
    wealth = np.cumsum(math.log(2.0) - np.logaddexp(0.0, -twice), axis=-1)
    return e_from_log(np.logaddexp.reduce(wealth, axis=-2) - math.log(len(STAKES)))


def sign_flip_e_value(differences: Sequence[float] | Floats) -> float:
    """The last of `sign_flip_e_values` for one set of differences, shape (n,); 1.0 for none."""
    x = checked_differences(differences)
    if x.ndim != 1:
        raise ValueError(f"differences must have one axis, got shape {x.shape}")
    return float(sign_flip_e_values(x)[-1]) if x.size else 1.0


@cache
def fewest_pairs(alpha: float) -> int:
    """Return the minimum number of equal differences with which the bet reaches 1/alpha.

    Raises ValueError unless 0 < alpha < 1.
    """
    check_alpha(alpha)
    # n pairs give less than 2^n but more than a fifth of it, the share of the largest stake.
    most = math.ceil(math.log2(2.0 * len(STAKES) / alpha))
    return int(np.searchsorted(sign_flip_e_values(np.ones(most)), 1.0 / alpha)) + 1
