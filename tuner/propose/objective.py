"""What the search aims at: the weights of components, their floor, and the gain worth a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The objective. ``weights``: of the components in the score; ``floor``: largest log time ratio
    allowed to a component; ``tolerance``: the gain in log units below which a setting is never
    changed, and the one above which it always is; ``noise``: prior guess of the variance of a
    component's log time in one run.
    """

    weights: tuple[float, ...]
    floor: float
    tolerance: tuple[float, float]
    noise: float = 0.1**2
