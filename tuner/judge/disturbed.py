"""Decide which arm of a block to measure again because other load disturbed it.

Owns the limits and the decision. It considers only the covariates, never the times: an arm that was
merely slow is kept. As long as configurations do not influence the other load, and the order within
blocks is random, a repeated measurement is as good as the first one. Nobody can be sure of that, so
arms of fresh blocks are never repeated (``run/measuring.py``): claims keep their error regardless.

An arm is disturbed if a covariate exceeds the level usual for earlier arms, median + 6 deviations
(1.4826 times the median absolute deviation), and exceeds the other arms of its block by a minimum
amount: load that affects all arms of a block equally cancels in its differences. On a machine that
is always busy the median is high, so nothing is measured again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.adjustment import WORDS
from tuner.model import COVARIATES

#: Processors by which an arm must exceed the others of its block, keyed by the first word of a
#: covariate's name. I/O wait is left out because it cannot be attributed to other processes.
LEAST: Final[Mapping[str, float]] = {"others": 0.5, "stolen": 0.2}

MIN_ARMS: Final = 10
"""Minimum number of earlier arms for estimating the usual level."""

MOST_IN_BLOCK: Final = 2
"""Maximum number of repeated measurements in one block."""

MOST_SHARE: Final = 0.1
"""Maximum share of all arms of a campaign that may be measured again."""

_DEVIATIONS: Final = 6.0
_NORMAL: Final = 1.4826

Levels = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class DisturbedArm:
    """An arm to measure again. ``value``, ``limit``: processors; ``reason``: one sentence."""

    trial: int
    covariate: str
    value: float
    limit: float
    reason: str


def usual_limits(earlier: Sequence[Levels]) -> tuple[float, ...]:
    """Return the level of each covariate above which an arm is disturbed, infinite if unknown.

    earlier: the covariates of all arms of complete blocks so far, in the order of ``COVARIATES``;
    None if missing.
    """
    limits = []
    for number, name in enumerate(COVARIATES):
        past = [row[number] for row in earlier if len(row) > number]
        levels = np.array([level for level in past if level is not None])
        if name.partition("_")[0] not in LEAST or levels.size < MIN_ARMS:
            limits.append(math.inf)
            continue
        middle = float(np.median(levels))
        deviation = _NORMAL * float(np.median(np.abs(levels - middle)))
        least = LEAST[name.partition("_")[0]]
        limits.append(middle + max(_DEVIATIONS * deviation, least))
    return tuple(limits)


def disturbed(
    arms: Mapping[int, Levels],
    limits: Sequence[float],
    *,
    again: int = 0,
    again_in_all: int = 0,
    runs_in_all: int = 0,
) -> DisturbedArm | None:
    """Return the most disturbed arm of a block, to be measured again; None if there is none.

    arms: the covariates of the block's arms by trial, in the order of ``COVARIATES``; a repeated
    measurement replaces the first one. () or None entries stand for missing values. Call this when
    all arms have been measured, and again after each repeated measurement. limits: from
    ``usual_limits`` of earlier blocks. again: repeated measurements in this block so far;
    again_in_all: in the campaign; runs_in_all: arms of the campaign so far.
    """
    if again >= MOST_IN_BLOCK or again_in_all >= max(1.0, MOST_SHARE * runs_in_all):
        return None
    worst: DisturbedArm | None = None
    worst_excess = 0.0
    for number, (name, limit) in enumerate(zip(COVARIATES, limits, strict=True)):
        now = {trial: row[number] for trial, row in arms.items() if len(row) > number}
        levels = {trial: level for trial, level in now.items() if level is not None}
        least = LEAST.get(name.partition("_")[0], math.inf)
        for trial, level in levels.items():
            others = [other for who, other in levels.items() if who != trial]
            if not others or level <= limit or level - float(np.median(others)) <= least:
                continue
            excess = (level - limit) / least
            if worst is None or excess > worst_excess:
                reason = f"{WORDS[name]} was {level:.2f} processors, more than {limit:.2f}"
                worst = DisturbedArm(trial, name, level, limit, reason)
                worst_excess = excess
    return worst
