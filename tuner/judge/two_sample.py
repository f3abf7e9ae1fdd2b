"""Two samples of numbers: how much they differ and whether that is shown.

Owns the comparison of samples from outside a race: values from files, unpaired, or the scores of
two trials that were measured in the same blocks. Each comparison has a t-type test, which gives the
interval, and a robust test that relies on the randomisation alone; a claim needs both, unless there
are too few values for the robust one to reach the level.

Values above 0 are compared on the log scale: exp of the estimate is a ratio of geometric means.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.confidence import Interval, confidence_interval
from tuner.judge.evalue import MIN_PAIRS, Floats, checked_differences, e_value
from tuner.judge.holm import holm
from tuner.judge.levels import check_alpha
from tuner.judge.robust import sign_flip_e_value
from tuner.judge.special import stdtr, stdtrit

MIN_VALUES: Final = 3
"""Minimum number of values in a sample, or of common blocks."""

WELCH: Final = "Welch's t test"
WELCH_OF_LOGS: Final = "Welch's t test of the logarithms"
PERMUTATION: Final = "permutation test"
PAIRED: Final = "mixture-t e-value of the differences within blocks"
SIGN_FLIP: Final = "sign-flip e-value"

_MOST_SPLITS: Final = 50_000  # up to this many splits all are tried, otherwise a random sample of:
_RANDOM_SPLITS: Final = 9_999
_MOST_VALUES: Final = 2_000  # with more values, the t test needs no robust check


class Direction(StrEnum):
    """Direction of the second sample from the reference, if shown."""

    HIGHER = "higher"
    LOWER = "lower"
    NOT_SHOWN = "not_shown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A sample against the reference.

    relative: whether estimate and interval (two-sided) are in log units; otherwise they are in the
    unit of the values. n: number of values, or of common blocks if paired. p_value: of the t-type
    test; p_robust: of the robust one, None if there is none; robust_floor: the smallest p_robust
    possible with this number of values (paired: with the same difference in every block).
    """

    paired: bool
    relative: bool
    n: int
    estimate: float
    interval: Interval
    method: str
    p_value: float
    robust_method: str | None
    p_robust: float | None
    robust_floor: float


@dataclass(frozen=True, slots=True)
class Claim:
    """The conclusion of a comparison, alone or among several.

    p_value: the one that the claim is based on, corrected for the number of comparisons if
    requested. robust: whether the robust test could have reached the level; agree: whether both
    tests agree, always true if it could not.
    """

    direction: Direction
    p_value: float
    robust: bool
    agree: bool


def compare_samples(
    reference: Sequence[float] | Floats, other: Sequence[float] | Floats, *, alpha: float = 0.05
) -> Comparison:
    """Unpaired samples, each of shape (n,): Welch's t and a permutation test, both two-sided.

    Both tests use logarithms if every value of both samples is above 0. The permutation test tries
    every split of the values if there are at most 50,000, otherwise 9,999 random ones with a fixed
    seed. If neither sample varies there is no t test: the interval is unbounded and the p-value is
    that of the permutation test. Valid for a single look at a number of values fixed in advance.
    Sources: Welch (1947), Fisher (1935). Raises ValueError for fewer than 3 values, for values that
    are not finite and for alpha outside (0, 1).
    """
    check_alpha(alpha)
    x, y = _checked(reference), _checked(other)
    relative = bool((x > 0.0).all() and (y > 0.0).all())
    if relative:
        x, y = np.log(x), np.log(y)
    estimate = float(y.mean() - x.mean())
    parts = [float(v.var(ddof=1)) / v.size for v in (x, y)]
    error = math.sqrt(sum(parts))
    small = x.size + y.size <= _MOST_VALUES
    p_robust, floor = _permutation(x, y) if small else (None, 0.0)
    if error > 1e-15 * max(float(np.abs(x).max()), float(np.abs(y).max())):
        share = sum(p**2 / (v.size - 1) for p, v in zip(parts, (x, y), strict=True))
        freedom = sum(parts) ** 2 / share
        p_value = 2.0 * float(stdtr(freedom, -abs(estimate) / error))
        half = float(stdtrit(freedom, 1.0 - alpha / 2.0)) * error
        interval = Interval(estimate - half, estimate + half)
    else:
        p_value = 1.0 if p_robust is None else p_robust
        interval = Interval(-math.inf, math.inf)
    return Comparison(
        paired=False,
        relative=relative,
        n=y.size,
        estimate=estimate,
        interval=interval,
        method=WELCH_OF_LOGS if relative else WELCH,
        p_value=p_value,
        robust_method=None if p_robust is None else PERMUTATION,
        p_robust=p_robust,
        robust_floor=floor,
    )


def compare_paired(differences: Sequence[float] | Floats, *, alpha: float = 0.05) -> Comparison:
    """Two arms measured in the same blocks, from D = ln(other / reference), shape (blocks,).

    Interval and tests are valid at any stopping time, so one may look after every block. p-values
    are 2 / E for the larger of the two one-sided e-values, at most 1; the interval excludes 0
    exactly if the t-type one is at most alpha. Raises ValueError as `compare_samples` does.
    """
    check_alpha(alpha)
    d = checked_differences(differences)
    if d.ndim != 1 or d.size < MIN_PAIRS:
        raise ValueError(f"need at least {MIN_PAIRS} blocks in common, got {d.size}")
    return Comparison(
        paired=True,
        relative=True,
        n=d.size,
        estimate=float(d.mean()),
        interval=confidence_interval(d, alpha=alpha),
        method=PAIRED,
        p_value=min(1.0, 2.0 / max(e_value(d), e_value(-d))),
        robust_method=SIGN_FLIP,
        p_robust=min(1.0, 2.0 / max(sign_flip_e_value(d), sign_flip_e_value(-d))),
        robust_floor=min(1.0, 2.0 / sign_flip_e_value(np.ones(d.size))),
    )


def claims(
    comparisons: Sequence[Comparison], *, alpha: float = 0.05, correct: bool = False
) -> tuple[Claim, ...]:
    """Conclude what each comparison shows at `alpha`; correct: apply Holm's correction.

    A claim is based on the larger p-value of the two tests, or on the t-type test alone if the
    robust one could not have reached alpha (at the strictest of Holm's steps, if corrected).
    """
    check_alpha(alpha)
    steps = len(comparisons) if correct else 1
    robust = [c.p_robust is not None and c.robust_floor * steps <= alpha for c in comparisons]
    p_values = [
        max(c.p_value, c.p_robust) if can and c.p_robust is not None else c.p_value
        for c, can in zip(comparisons, robust, strict=True)
    ]
    if correct:
        p_values = holm(p_values).tolist()
    claims = []
    for c, can, p in zip(comparisons, robust, p_values, strict=True):
        direction = Direction.NOT_SHOWN
        if p <= alpha and c.estimate != 0.0:
            direction = Direction.HIGHER if c.estimate > 0.0 else Direction.LOWER
        split = can and c.p_robust is not None and (c.p_robust <= alpha) != (c.p_value <= alpha)
        claims.append(Claim(direction, p, can, not split))
    return tuple(claims)


def _permutation(x: Floats, y: Floats) -> tuple[float, float]:
    """Two-sided p-value of the difference in means over splits, and the smallest possible one.

    It is twice the smaller tail, since samples of unequal size have unequal tails.
    """
    together = np.concatenate([x, y])
    mean = float(together.mean())
    pooled = together - mean
    # The total is fixed, so the sums of the smaller sample determine the difference.
    smaller = x if x.size <= y.size else y
    actual = float((smaller - mean).sum())
    exact = math.comb(pooled.size, smaller.size) <= _MOST_SPLITS
    if exact:
        sums = pooled[_all_splits(pooled.size, smaller.size)].sum(axis=1)
    else:
        sums = _random_splits(pooled, smaller.size)
    near = 1e-9 * float(np.abs(pooled).max()) + 1e-13 * float(np.abs(together).max())
    tail = min(int((sums >= actual - near).sum()), int((sums <= actual + near).sum()))
    if not exact:
        return min(1.0, 2.0 * (tail + 1) / (sums.size + 1)), 2.0 / (sums.size + 1)
    ends = min(int((sums >= sums.max() - near).sum()), int((sums <= sums.min() + near).sum()))
    return min(1.0, 2.0 * tail / sums.size), min(1.0, 2.0 * ends / sums.size)


def _all_splits(n: int, take: int) -> NDArray[np.int64]:
    splits = itertools.chain.from_iterable(itertools.combinations(range(n), take))
    return np.fromiter(splits, dtype=np.int64).reshape(-1, take)


def _random_splits(pooled: Floats, take: int) -> Floats:
    rng = np.random.default_rng(0)
    sums = np.empty(_RANDOM_SPLITS)
    batch = max(1, 2_000_000 // pooled.size)
    for start in range(0, _RANDOM_SPLITS, batch):
        rows = min(batch, _RANDOM_SPLITS - start)
        shuffled = rng.permuted(np.broadcast_to(pooled, (rows, pooled.size)), axis=1)
        sums[start : start + rows] = shuffled[:, :take].sum(axis=1)
    return sums


def _checked(values: Sequence[float] | Floats) -> Floats:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size < MIN_VALUES:
        raise ValueError(f"a sample needs at least {MIN_VALUES} values, got {x.size}")
    if not bool(np.isfinite(x).all()):
        raise ValueError("every value must be a finite number")
    return x
