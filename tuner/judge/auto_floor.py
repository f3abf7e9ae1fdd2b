"""Choose the floor that a campaign can show, from the noise of its pilot, before the search.

Owns the choice for ``floor: auto``. A floor is useful only if a configuration without any loss
would be shown to keep it. The probability of that within the blocks of a certification depends on
the noise of each component, which a pilot of a few blocks estimates poorly. So the variances are
shrunk towards their mean, as if ``_ALIKE`` further blocks of each component had shown that mean (an
empirical Bayes estimate; Smyth 2004), and the power of each test is averaged over the distribution
of the variance: n s^2 / sigma^2 is chi-square with n degrees of freedom. Components are treated as
independent; if noise slows them together, the true probability is larger than the one computed.

The choice uses only the baseline against its twin, never a configuration that may be certified. So
the error of the floor tests is the same as for a floor specified by the user.
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
"""Choices of ``floor: auto``; round values, since a limit like 17.3% is of no use to anyone."""

#: Minimum probability that all components are shown to keep a floor for it to be chosen.
ENOUGH: Final = 0.8
_ALIKE: Final = 4.0
#: Number of equally likely variance values that the power is averaged over.
_POINTS: Final = 32


@dataclass(frozen=True, slots=True)
class FloorChoice:
    """A chosen floor. ``floor``: a fraction; ``chance``: P(a configuration that changes no
    component is shown to keep it in all of them); ``reason``: one sentence.
    """

    floor: float
    chance: float
    reason: str


def choose_floor(
    sds: Sequence[float], pilot_blocks: int, certify_blocks: int, alpha: float
) -> FloorChoice:
    """Return the smallest of ``FLOORS`` that is likely to be shown (``ENOUGH``), or the largest if
    none is.

    sds: standard deviation of each component's log difference in one pilot block.
    certify_blocks: maximum number of fresh blocks. alpha: one-sided error of each component's test.
    Raises ValueError for fewer than 3 pilot blocks or no component.
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
    """P(all components, if unchanged, are shown to keep the floor); see ``choose_floor``."""
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
