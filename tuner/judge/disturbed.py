"""Which arm of a block others have disturbed so much that it is measured again.

Owns the limits and the decision. It looks at what others did to the machines, and never at the
times: an arm that was merely slow stays. As long as configurations have no part in what others do,
and the order within blocks is random, an arm measured again is as good as the first one was, and
the tests keep their error.

An arm is disturbed where a covariate is beyond what earlier arms had, median + 6 deviations (1.4826
times the median absolute deviation), and beyond the other arms of its block by a least amount: what
disturbs all of a block alike cancels in its differences. A machine that is always busy moves the
median, and nothing is measured again there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.adjustment import WORDS
from tuner.model import COVARIATES

#: Processors by which an arm must be beyond the others of its block, by the first word of a
#: covariate's name. Of waiting for disks nobody knows whose it is.
LEAST: Final[Mapping[str, float]] = {"others": 0.5, "stolen": 0.2}

MIN_ARMS: Final = 10
"""Fewest earlier arms that say what is usual."""

MOST_IN_BLOCK: Final = 2
"""Arms of one block that are measured again at most."""

MOST_SHARE: Final = 0.1
"""Part of all arms of a campaign that may be measured again."""

_DEVIATIONS: Final = 6.0
_NORMAL: Final = 1.4826

Levels = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class DisturbedArm:
    """An arm to measure again. ``value``, ``limit``: processors; ``reason``: a sentence."""

    trial: int
    covariate: str
    value: float
    limit: float
    reason: str


def usual_limits(earlier: Sequence[Levels]) -> tuple[float, ...]:
    """The level of each covariate above which an arm is disturbed, infinite where unknown.

    earlier: the covariates of all arms of complete blocks so far, in the order of ``COVARIATES``,
    None for one that is not known.
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
    """The arm of a block that is to be measured again, the most disturbed one; None without any.

    arms: the covariates of the block's arms by trial, those measured again in place of what they
    were, in the order of ``COVARIATES``; (), or None in it, for what is not known. Ask when all
    have been measured, and again after each that was. limits: see ``usual_limits``, of earlier
    blocks. again: how many arms of this block have been measured again, ``again_in_all`` of the
    campaign; ``runs_in_all``: arms of the campaign so far.
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
