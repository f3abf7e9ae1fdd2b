"""Permutation test of whether a configuration influences a covariate, which must then not be used.

Adjusting for something that the configuration itself causes would mistake part of its effect for
noise, or credit it with a gain that it does not have. The test relies only on the random order
within blocks: if no configuration has an influence, all orders of a block's values are equally
likely. So the values are permuted within each block, many times, and the actual statistic must not
stand out.

What to expect with 10 blocks of 5 arms: a covariate is refused in five of six cases if the finalist
shifts it by one standard deviation, in four to five of ten if by half of one, and in one of seven
to eleven without any influence. A weak influence on a noisy covariate goes undetected, which is why
the raw differences must show the gain as well (``tuner.judge.adjustment``). A finalist with fewer
than ``FINALIST_BLOCKS`` blocks cannot be tested well enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats
from tuner.judge.observations import Rows, means

#: The levels err on the side of refusal: dropping a covariate only leaves more noise.
ANY_LEVEL: Final = 0.05
FINALIST_LEVEL: Final = 0.1

FINALIST_BLOCKS: Final = 8
"""Minimum number of blocks with the finalist. With 8, the worst influence raised the error of
claims based on adjusted differences from 2.5 to 4.8%; with 6, 4, 2 and none, to 5.2, 6.4, 7.4 and
17% (bench/error_rates).
"""

_DEALS: Final = 499


@dataclass(frozen=True, slots=True)
class Influence:
    """P-values under the null hypothesis that no configuration influences the covariate.

    ``any_trial``: for any differences between the trials' means. ``finalist``: for the finalist's
    mean being above the baseline's; one-sided, since only that makes it look faster than it is. 1.0
    without a finalist.
    """

    any_trial: float
    finalist: float

    @property
    def is_refused(self) -> bool:
        """Whether the covariate must not be used."""
        return self.any_trial <= ANY_LEVEL or self.finalist <= FINALIST_LEVEL


def can_test(rows: Rows, finalist: int) -> bool:
    """Whether ``rows`` have enough blocks with the finalist, a trial number, to test it."""
    return int((rows.numbers[rows.trial] == finalist).sum()) >= FINALIST_BLOCKS


def influences(rows: Rows, finalist: int | None = None, *, seed: int = 0) -> tuple[Influence, ...]:
    """Test the influence of configurations on each covariate of ``rows``.

    ``finalist``: a trial number; if it is None or has no blocks, only the test of any trial is
    made. Deterministic for a given ``seed``.
    """
    rng = np.random.default_rng(seed)
    z = rows.z - means(rows.z, rows.block)[rows.block]
    indices = np.flatnonzero(rows.numbers == (-1 if finalist is None else finalist))
    of_finalist = _contrast(rows, int(indices[0])) if indices.size else None
    actual = _statistics(rows, z, of_finalist)
    above = np.zeros_like(actual)
    for _ in range(_DEALS):
        # The rows are sorted by block, so this permutes them within each block.
        dealt = np.lexsort((rng.random(len(z)), rows.block))
        above += _statistics(rows, z[dealt], of_finalist) >= actual * (1.0 - 1e-12)
    any_trial, finalists = ((1.0 + above) / (1.0 + _DEALS)).tolist()
    if of_finalist is None:
        finalists = [1.0] * len(finalists)
    return tuple(map(Influence, any_trial, finalists))


def _statistics(rows: Rows, z: Floats, of_finalist: Floats | None) -> Floats:
    """Scatter of the trials' means, and the finalist's difference; shape (2, covariates)."""
    counts = np.bincount(rows.trial)
    scatter = (counts[:, None] * means(z, rows.trial) ** 2).sum(axis=0)
    shift = np.zeros_like(scatter) if of_finalist is None else of_finalist @ z
    return np.stack([scatter, shift])


def _contrast(rows: Rows, finalist: int) -> Floats:
    """Weights of the arms in the finalist's mean difference from the baseline."""
    its_own = rows.trial == finalist
    shared = np.isin(rows.block, rows.block[its_own])
    weights = its_own.astype(np.float64) - (shared & (rows.trial == 0))
    return np.asarray(weights / max(int(its_own.sum()), 1), dtype=np.float64)
