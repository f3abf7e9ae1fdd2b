"""The arithmetic of the classic ministat: two samples, pooled standard deviation, Student's t.

Owns its rules and its deviations from the textbook, so that published results are reproduced to the
last digit: the t table has three decimals and ends at 100 degrees of freedom, beyond which the
normal quantiles apply; a few entries of the table are off; what it calls 99.5% is 99.8%. The level
holds for a single comparison and a single look; there is no correction for more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats
from tuner.judge.special import ndtri, stdtr, stdtrit

MIN_VALUES: Final = 3
"""Minimum number of values in a sample."""

_UPPER_TAILS: Final[dict[float, float]] = {
    80.0: 0.1,
    90.0: 0.05,
    95.0: 0.025,
    98.0: 0.01,
    99.0: 0.005,
    99.5: 0.001,
}

CONFIDENCES: Final[tuple[float, ...]] = tuple(_UPPER_TAILS)
"""The confidence levels (%) that the t table has columns for."""

_TABLE_ENDS: Final = 100

# Entries of the last column that are not the rounded quantiles: degrees of freedom -> entry.
_MISPRINTS: Final[dict[int, float]] = {
    1: 318.313,
    7: 4.782,
    8: 4.499,
    9: 4.296,
    10: 4.143,
    11: 4.024,
    12: 3.929,
}


class Edition(StrEnum):
    """Edition of ministat; they differ in the median for even n and in the interval in percent.

    old: the median is the upper of the two middle values; the interval is divided by the reference
    mean, as if that were known exactly. In use when most tables were published, and in Debian's
    package. new: the median is the mean of the two; the interval is that of the ratio of the means.
    """

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Summary:
    """One sample's row of the classic table, in the unit of its values; sd uses n - 1."""

    n: int
    minimum: float
    maximum: float
    median: float
    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The second sample against the reference, in the unit of the values and in percent.

    difference: of the means; interval, percent_interval: half-widths. proven: whether |difference|
    > interval. With a reference mean of 0 the percentages are infinite or NaN.
    """

    confidence: float
    proven: bool
    difference: float
    interval: float
    percent: float
    percent_interval: float
    pooled_sd: float


def summarise(values: Sequence[float] | Floats, edition: Edition = Edition.OLD) -> Summary:
    """Summarise one sample, shape (n,). ValueError for fewer than 3 or for non-finite values."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    if x.ndim != 1 or x.size < MIN_VALUES:
        raise ValueError(f"a sample needs at least {MIN_VALUES} values, got {x.size}")
    if not bool(np.isfinite(x).all()):
        raise ValueError("every value must be a finite number")
    middle = x.size // 2
    median = float(x[middle])
    if edition is Edition.NEW and x.size % 2 == 0:
        median = (float(x[middle - 1]) + median) / 2.0
    return Summary(
        n=x.size,
        minimum=float(x[0]),
        maximum=float(x[-1]),
        median=median,
        mean=float(x.mean()),
        sd=float(x.std(ddof=1)),
    )


@lru_cache(maxsize=1024)
def student_t(degrees_of_freedom: int, confidence: float) -> float:
    """Look up the t table. ValueError for less than 1 degree or a level without a column."""
    if confidence not in _UPPER_TAILS:
        levels = ", ".join(f"{level:g}" for level in CONFIDENCES)
        raise ValueError(f"confidence must be one of {levels}, got {confidence:g}")
    if degrees_of_freedom < 1:
        raise ValueError(f"degrees of freedom must be at least 1, got {degrees_of_freedom}")
    if confidence == CONFIDENCES[-1] and degrees_of_freedom in _MISPRINTS:
        return _MISPRINTS[degrees_of_freedom]
    upper = 1.0 - _UPPER_TAILS[confidence]
    exact = ndtri(upper) if degrees_of_freedom > _TABLE_ENDS else stdtrit(degrees_of_freedom, upper)
    return round(float(exact), 3)


def difference(
    reference: Summary,
    other: Summary,
    *,
    confidence: float = 95.0,
    edition: Edition = Edition.OLD,
) -> Difference:
    """Student's t with pooled sd: e = t s sqrt(1/n1 + 1/n2), proven if |difference| > e.

    The interval in percent is 100 e / m_ref in the old edition; in the new one 100 t sqrt(((n - 1)
    sd^2 + (n_ref - 1) sd_ref^2 (m / m_ref)^2) (n + n_ref) / (n n_ref (n + n_ref - 2))) / m_ref.
    Raises ValueError for a level without a column.
    """
    freedom = reference.n + other.n - 2
    t = student_t(freedom, confidence)
    squares, reference_squares = (s.sd**2 * (s.n - 1) for s in (other, reference))
    pooled = math.sqrt((squares + reference_squares) / freedom)
    gap = other.mean - reference.mean
    half = t * pooled * math.sqrt(1.0 / reference.n + 1.0 / other.n)
    relative = half
    if edition is Edition.NEW:
        share = _ratio(other.mean, reference.mean)
        spread = (squares + reference_squares * share**2) / freedom
        relative = t * math.sqrt(spread * (1.0 / reference.n + 1.0 / other.n))
    return Difference(
        confidence=confidence,
        proven=abs(gap) > half,
        difference=gap,
        interval=half,
        percent=100.0 * _ratio(gap, reference.mean),
        percent_interval=100.0 * _ratio(relative, reference.mean),
        pooled_sd=pooled,
    )


def pooled_p_value(reference: Summary, other: Summary) -> float:
    """Two-sided p-value of the same comparison, exact t distribution; 1 for equal constants.

    For correcting for multiple comparisons, which the classic tool does not do.
    """
    freedom = reference.n + other.n - 2
    squares = sum(s.sd**2 * (s.n - 1) for s in (reference, other))
    error = math.sqrt(squares / freedom * (1.0 / reference.n + 1.0 / other.n))
    t = abs(_ratio(other.mean - reference.mean, error))
    return 1.0 if math.isnan(t) else 2.0 * float(stdtr(freedom, -t))


def _ratio(numerator: float, denominator: float) -> float:
    """Divide as C does: infinite or NaN for a denominator of 0."""
    if denominator == 0.0:
        return math.nan if numerator == 0.0 else math.copysign(math.inf, numerator)
    return numerator / denominator
