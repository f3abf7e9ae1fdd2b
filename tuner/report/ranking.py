"""The order in which trials are listed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tuner.model import Trial
from tuner.records.estimate import Estimate


def best_first(
    trials: Sequence[Trial], first: Sequence[int], estimates: Mapping[int, Estimate]
) -> list[Trial]:
    """Return the trials whose numbers are in ``first``, and the others in this order: those shown
    to be faster, by what they gain at least; all others by their estimates; those without one.
    """

    def rank(trial: Trial) -> tuple[int, float, float, int]:
        place = first.index(trial.number) if trial.number in first else len(first)
        if (estimate := estimates.get(trial.number)) is None:
            return place, math.inf, math.inf, trial.number
        return place, min(1.0, estimate.upper), estimate.ratio, trial.number

    return sorted(trials, key=rank)
