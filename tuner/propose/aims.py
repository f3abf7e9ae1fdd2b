"""What the search aims at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What counts as better. ``weights``: of the components in the score; ``floor``: largest log
    time ratio of a component; ``tolerance``: gains in log units for which no setting is
    changed, and for which it always is;
    ``noise``: a guess of the variance of a component's log time in one run.
    """

    weights: tuple[float, ...]
    floor: float
    tolerance: tuple[float, float]
    noise: float = 0.1**2
