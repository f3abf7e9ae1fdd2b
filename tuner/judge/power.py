"""Planning: the effect that a number of blocks can show, and the number of blocks for an effect.

Owns the operating characteristics of the one-sided e-value test with a look after every block, for
independent normal differences, in units of their standard deviation. The test rejects at look k if
mean + effect >= T_k s / sqrt(k), so each simulated path has one smallest effect at which it would
have rejected by look n, and the answers are quantiles of these effects over the paths. This needs
no search and reuses the same paths for all calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from tuner.judge.confidence import critical_t
from tuner.judge.evalue import MIN_PAIRS, Floats, running_moments
from tuner.judge.levels import MOST_BLOCKS
from tuner.judge.thresholds import threshold

_POWER: Final = 0.8
_PATHS: Final = 20_000  # standard error of a probability: about .003
#: Looks of paths that are kept in memory, 8 bytes each; and that are simulated at a time, which
#: takes several times as much for each.
_MOST_KEPT: Final = 2_000_000
_AT_A_TIME: Final = 250_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """P(a test rejects within the blocks allowed), and the mean number of blocks that it takes.

    A test that does not reject takes all of them.
    """

    power: float
    mean_blocks: float

    @classmethod
    def of(cls, by_look: Floats) -> Forecast:
        """From P(the test rejects by look 3, 4, ...)."""
        return cls(float(by_look[-1]), MIN_PAIRS + float((1.0 - by_look[:-1]).sum()))


def detectable_effect(max_n: int, alpha: float) -> float:
    """Return the effect, in units of sd(D), that is shown within max_n blocks with power 0.8.

    Infinite if no effect is: below 3 blocks, or with too few blocks to reach the threshold. Raises
    ValueError unless 0 < alpha < 1 and max_n <= MOST_BLOCKS.
    """
    if max_n < MIN_PAIRS:
        return math.inf
    return float(np.quantile(_smallest_effects(max_n, alpha)[:, -1], _POWER, method="higher"))


def predict(effect: float, max_n: int, alpha: float) -> Forecast:
    """Predict a test of at most max_n blocks for `effect`, in units of sd(D).

    Raises ValueError as `detectable_effect` does, and for fewer than 3 blocks.
    """
    if max_n < MIN_PAIRS:
        raise ValueError(f"max_n must be at least {MIN_PAIRS}, got {max_n}")
    return Forecast.of(power_by(np.array([effect]), max_n, max_n, alpha)[0])


def power_by(effects: Floats, most: int, max_n: int, alpha: float) -> Floats:
    """P(the test rejects by look 3, ..., most) for each effect, in units of sd(D); shape (effects,
    looks). ``max_n``: number of blocks that the test was planned for. Raises ValueError as
    `predict` does.
    """
    ranked = _smallest_effects(max_n, alpha)[:, : most - MIN_PAIRS + 1]
    counts = [np.searchsorted(of_look, effects, side="right") for of_look in ranked.T]
    return np.asarray(np.stack(counts, axis=1) / len(ranked), dtype=np.float64)


@lru_cache(maxsize=8)
def _smallest_effects(max_n: int, alpha: float) -> Floats:
    """The smallest effects at which paths reject by look 3, ..., max_n; (paths, looks).

    At each look they are sorted in ascending order, so a row is no single path. Beyond 100 blocks
    they take too much memory: of each of k groups of paths, only every k-th value is kept. That
    moves a probability by less than .001, a third of its standard error.
    """
    if max_n > MOST_BLOCKS:
        raise ValueError(f"max_n must be at most {MOST_BLOCKS}, got {max_n}")
    level = threshold(alpha, max_n)
    t = np.array([critical_t(n, level) for n in range(MIN_PAIRS, max_n + 1)])
    rng = np.random.default_rng(0)
    groups, batch = math.ceil(_PATHS * t.size / _MOST_KEPT), max(1, _AT_A_TIME // max_n)
    every = []
    for paths in map(len, np.array_split(np.arange(_PATHS), groups)):
        smallest = np.empty((paths, t.size))
        for start in range(0, paths, batch):
            part = smallest[start : start + batch]
            m = running_moments(rng.standard_normal((len(part), max_n)))
            n, mean, variance = (of[:, MIN_PAIRS - 1 :] for of in (m.n, m.mean, m.variance))
            np.minimum.accumulate(t * np.sqrt(variance / n) - mean, axis=1, out=part)
        smallest.sort(axis=0)
        every.append(smallest[groups // 2 :: groups].copy())
    ranked = np.concatenate(every)
    ranked.sort(axis=0)
    return ranked
