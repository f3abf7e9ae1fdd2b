"""An estimate with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio of geometric-mean times over the baseline's, its interval (0, inf: no bound)."""

    ratio: float
    lower: float
    upper: float
