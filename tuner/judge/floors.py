"""Which floor a campaign can show: chosen from the noise of its pilot, before anything is searched.

Owns the choice of ``floor: auto``. A floor is of use only if a configuration without any loss would
be shown to keep it. The chance of that in the blocks of a certification follows from the noise of
each component, which a pilot of a few blocks knows badly. So the variances are moved towards their
mean, as if ``_ALIKE`` further blocks of each component had shown that mean (an empirical Bayes
estimate; Smyth 2004), and the power of each test is averaged over what the variance may be: n s^2 /
sigma^2 is a chi-square of n degrees of freedom. Components are taken as independent; what makes
them slow together makes the chance larger than what is said here.

The choice looks at the baseline against itself alone, and never at a configuration that may be
certified. So the error of the tests of floors is what it is for a floor that somebody wrote down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.power import power_by
from tuner.judge.score import margin
from tuner.judge.special import chdtri
from tuner.judge.words import blocks, percent

FLOORS: Final[tuple[float, ...]] = (0.10, 0.15, 0.20, 0.25, 0.35, 0.50)
"""What ``floor: auto`` chooses from: nobody needs to know a limit like 17.3%."""

#: Chance of all floors together from which a floor can be shown.
ENOUGH: Final = 0.8
_ALIKE: Final = 4.0
#: Equally likely values of a variance that the power is averaged over.
_POINTS: Final = 32


@dataclass(frozen=True, slots=True)
class FloorChoice:
    """``floor``: a fraction; ``chance``: P(a configuration that changes no component is shown to
    keep it in all of them); ``reason``: a sentence.
    """

    floor: float
    chance: float
    reason: str


def choose_floor(
    sds: Sequence[float], pilot_blocks: int, certify_blocks: int, alpha: float
) -> FloorChoice:
    """The smallest of ``FLOORS`` that is likely to be shown (``ENOUGH``); the largest where none
    is.

    sds: standard deviation of each component's log difference in one of the pilot's blocks.
    certify_blocks: most fresh blocks. alpha: one-sided error of each component's test. Raises
    ValueError for fewer than 3 pilot blocks, or no component.
    """
    chances = [
        (floor, floor_chance(floor, sds, pilot_blocks, certify_blocks, alpha)) for floor in FLOORS
    ]
    floor, chance = next((each for each in chances if each[1] >= ENOUGH), chances[-1])
    how = f"in {blocks(certify_blocks)} of certification"
    sentence = f"{percent(margin(floor))} is the smallest floor that a configuration without losses"
    if chance < ENOUGH:
        sentence = f"not even a floor of {percent(margin(floor))} is likely to be shown"
        return FloorChoice(floor, chance, f"{sentence} {how} ({100.0 * chance:.0f}%)")
    reason = f"{sentence} is likely to be shown to keep {how} ({100.0 * chance:.0f}%)"
    return FloorChoice(floor, chance, reason)


def floor_chance(
    floor: float, sds: Sequence[float], pilot_blocks: int, certify_blocks: int, alpha: float
) -> float:
    """P(every component that stays as it was is shown to keep the floor); see ``choose_floor``."""
    if pilot_blocks < MIN_PAIRS or not sds:
        raise ValueError(f"need {MIN_PAIRS} pilot blocks or more, and a component")
    if certify_blocks < MIN_PAIRS:
        return 0.0
    own = np.square(np.asarray(sds, dtype=np.float64))
    freedom = pilot_blocks - 1.0
    variances = (freedom * own + _ALIKE * own.mean()) / (freedom + _ALIKE)
    degrees = freedom + _ALIKE
    shares = (np.arange(_POINTS) + 0.5) / _POINTS
    spread = np.sqrt(degrees / np.asarray(chdtri(degrees, shares)))
    with np.errstate(divide="ignore"):
        effects = margin(floor) / (np.sqrt(variances)[:, None] * spread)
    power = power_by(effects.ravel(), certify_blocks, certify_blocks, alpha)[:, -1]
    return float(power.reshape(effects.shape).mean(axis=1).prod())
