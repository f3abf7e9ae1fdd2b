"""An estimate with its interval."""

from __future__ import annotations

from dataclasses import dataclass

#: Standard deviations to each side of a normal distribution's mean that hold 95% of it.
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Estimate:
    """Ratio of geometric-mean times to the baseline's, with its interval (0, inf: no bound)."""

    ratio: float
    lower: float
    upper: float


def is_clear(lower: float, upper: float) -> bool:
    """Whether an interval of ratios excludes 1, no effect."""
    return lower > 1.0 or upper < 1.0
