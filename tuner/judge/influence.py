"""Whether a configuration influences a covariate: then the covariate must not be used.

An adjustment by what a configuration itself causes would take a part of its effect for noise, or
give it a gain that it does not have. The test rests on the random order within blocks alone: if no
configuration has an influence, the values of a block are as likely in any other order. So they are
dealt out anew within each block, many times, and what was seen must not stand out.

What to expect: at 10 blocks of 5 arms a constant influence on the finalist of one standard
deviation of the covariate is refused in five of six cases, of half of one in four to five of ten,
and without any influence one covariate in seven to eleven is refused all the same. A weak influence
on a noisy covariate passes unseen: that the raw differences must show the gain as well is there for
it (``tuner.judge.adjustment``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats
from tuner.judge.observations import Rows, means

#: A covariate is refused too readily rather than too late: without it there is only more noise.
ANY_LEVEL: Final = 0.05
FINALIST_LEVEL: Final = 0.1

_DEALS: Final = 499


@dataclass(frozen=True, slots=True)
class Influence:
    """Probabilities of what was seen, or more, if no configuration has an influence.

    ``any_trial``: of differences between the trials' means, whichever. ``finalist``: of a mean of
    the finalist as far above the baseline's; above, since only that makes it look faster than it
    is. 1.0 without a finalist.
    """

    any_trial: float
    finalist: float

    @property
    def is_refused(self) -> bool:
        """Whether the covariate must not be used."""
        return self.any_trial <= ANY_LEVEL or self.finalist <= FINALIST_LEVEL


def influences(rows: Rows, finalist: int | None = None, *, seed: int = 0) -> tuple[Influence, ...]:
    """The influence of configurations on each covariate of ``rows``.

    ``finalist``: the number of a trial; without blocks of its own nothing is said of it. Same
    ``seed``, same answer.
    """
    rng = np.random.default_rng(seed)
    z = rows.z - means(rows.z, rows.block)[rows.block]
    places = np.flatnonzero(rows.numbers == (-1 if finalist is None else finalist))
    of_finalist = _contrast(rows, int(places[0])) if places.size else None
    actual = _statistics(rows, z, of_finalist)
    above = np.zeros_like(actual)
    for _ in range(_DEALS):
        # The rows are sorted by block: this deals them out anew within each.
        dealt = np.lexsort((rng.random(len(z)), rows.block))
        above += _statistics(rows, z[dealt], of_finalist) >= actual * (1.0 - 1e-12)
    any_trial, finalists = ((1.0 + above) / (1.0 + _DEALS)).tolist()
    if of_finalist is None:
        finalists = [1.0] * len(finalists)
    return tuple(map(Influence, any_trial, finalists))


def _statistics(rows: Rows, z: Floats, of_finalist: Floats | None) -> Floats:
    """The scatter of the trials' means and the finalist's difference, (2, covariates)."""
    counts = np.bincount(rows.trial)
    scatter = (counts[:, None] * means(z, rows.trial) ** 2).sum(axis=0)
    shift = np.zeros_like(scatter) if of_finalist is None else of_finalist @ z
    return np.stack([scatter, shift])


def _contrast(rows: Rows, finalist: int) -> Floats:
    """Weights of the arms in the finalist's mean difference to the baseline."""
    its_own = rows.trial == finalist
    shared = np.isin(rows.block, rows.block[its_own])
    weights = its_own.astype(np.float64) - (shared & (rows.trial == 0))
    return np.asarray(weights / max(int(its_own.sum()), 1), dtype=np.float64)
