"""Thresholds that an e-value must reach.

Owns the table of calibrated thresholds. Ville's inequality gives 1/alpha for every horizon; if the
maximum number of pairs is fixed in advance, smaller thresholds keep the error at exactly alpha for
normal differences. The simulation that calibrates them is tests/unit/judge/simulation.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Final

from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.levels import check_alpha

ALPHAS: Final[tuple[float, ...]] = (0.001, 0.00625, 0.01, 0.0125, 0.025, 0.05, 0.1, 0.2)
"""Error levels of the columns of `CALIBRATED`, ascending."""

CALIBRATED: Final[dict[int, tuple[float, ...]]] = {
    10: (200.0, 43.6, 27.7, 22.56, 11.47, 5.83, 2.91, 1.441),
    20: (280.0, 55.9, 35.6, 28.92, 14.66, 7.32, 3.59, 1.718),
    30: (318.0, 62.8, 40.2, 32.4, 16.37, 8.11, 3.94, 1.860),
    50: (377.0, 70.7, 45.2, 36.5, 18.33, 9.00, 4.34, 2.016),
}
"""Maximum number of pairs -> threshold for each of ALPHAS (10^6 null paths, decisions from n = 3).

The columns for .00625, .0125 and .2 come from the simulation with 10^6 paths, and agree with 10^6
null paths. The column for .001 is based on few crossings: its true error is up to .0011. There
is no column above .2: at .3 and 10 pairs the threshold would fall below 1, and an e-value below 1
is evidence for the null."""

# h = alpha * threshold(alpha) has one shallow maximum between .01 and .2. Between columns, the
# larger neighbour's h times this factor is used, which covers that maximum and the Monte Carlo
# error of the table.
_OFF_COLUMN: Final = 1.07


@lru_cache(maxsize=4096)
def threshold(alpha: float, max_n: int | None = None) -> float:
    """Return the threshold c with P(E_n >= c for some 3 <= n <= max_n) <= alpha under the null.

    max_n: maximum number of pairs, fixed before the first look; None if it is not fixed. The
    smallest tabulated horizon >= max_n is used, and Ville's 1/alpha past the last one.

    With h = alpha * threshold(alpha): for an alpha between two columns the result is h / alpha with
    the larger h of the neighbours plus 7%, capped at the stricter neighbour's threshold; below
    .001, where h only decreases, it uses the h of .001 plus 7%; above .2, it is the threshold of
    .2. According to the simulation the true error is at most alpha from 1e-6 to .2. The
    result never exceeds 1/alpha, and never decreases as alpha decreases.

    Raises ValueError unless 0 < alpha < 1 and max_n >= 3.
    """
    check_alpha(alpha)
    ville = 1.0 / alpha
    if max_n is None:
        return ville
    if max_n < MIN_PAIRS:
        raise ValueError(f"max_n must be at least {MIN_PAIRS}, got {max_n}")
    row = next((CALIBRATED[horizon] for horizon in sorted(CALIBRATED) if horizon >= max_n), None)
    if row is None:
        return ville
    if alpha > ALPHAS[-1]:
        return min(ville, row[-1])
    column = bisect_left(ALPHAS, alpha)
    if math.isclose(alpha, ALPHAS[column], rel_tol=1e-12):
        return row[column]
    share = ALPHAS[column] * row[column]
    stricter = ville
    if column > 0:
        share = max(share, ALPHAS[column - 1] * row[column - 1])
        stricter = row[column - 1]
    return min(ville, stricter, _OFF_COLUMN * share / alpha)
