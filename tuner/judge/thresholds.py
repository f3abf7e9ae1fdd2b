"""Thresholds that an e-value must reach, and the simulation that calibrates them.

Owns the table of calibrated thresholds. Ville's inequality gives 1/alpha for every horizon; if the
maximum number of pairs is fixed in advance, smaller thresholds keep the error at exactly alpha for
normal differences.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from tuner.judge.evalue import MIN_PAIRS, SCALES, Floats, log_e_from_moments, running_moments
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

The columns for .00625, .0125 and .2 come from `simulate_thresholds` with 10^6 paths, and agree with
10^6 null paths. The column for .001 is based on few crossings: its true error is up to .0011. There
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
    .2. According to `simulate_thresholds` the true error is at most alpha from 1e-6 to .2. The
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


@dataclass(frozen=True, slots=True)
class SimulatedThreshold:
    """A simulated threshold and its Monte Carlo standard error (both on the scale of E)."""

    value: float
    standard_error: float
    paths: int


def simulate_thresholds(
    alphas: Sequence[float], max_n: int, *, paths: int = 100_000, seed: int = 0
) -> list[SimulatedThreshold]:
    """Compute c with P(E_n >= c for some 3 <= n <= max_n) = alpha for normal differences of mean 0,
    for each of ``alphas`` from the same paths.

    Uses importance sampling. E is the likelihood ratio of the mixture (effects |N(0, g)| in units
    of the standard deviation) to the null, so with t the first n at which E reaches c,
    P_null(t <= max_n) is the mean of 1/E_t over paths drawn from the mixture, where crossings are
    common: 20,000 paths give about one percent accuracy at any alpha, where plain null paths would
    need millions.

    paths: number of simulated paths, drawn in batches to bound memory. Deterministic for a given
    seed. Raises ValueError unless there is an alpha, all are in 0..1 (exclusive), max_n >= 3 and
    paths >= 1000.
    """
    if not alphas:
        raise ValueError("there must be an alpha")
    for alpha in alphas:
        check_alpha(alpha)
    if max_n < MIN_PAIRS:
        raise ValueError(f"max_n must be at least {MIN_PAIRS}, got {max_n}")
    if paths < 1000:
        raise ValueError(f"paths must be at least 1000, got {paths}")
    rng = np.random.default_rng(seed)
    # log c; Ville bounds c by 1/alpha
    grid = np.arange(0.0, math.log(1.0 / min(alphas)) + 0.005, 0.005)
    # First and second moment of 1/E_t for each c in the grid.
    sums = np.zeros((2, grid.size + 1))
    batch = max(1, 1_000_000 // max_n)
    for start in range(0, paths, batch):
        log_e = _mixture_paths(rng, min(batch, paths - start), max_n)
        highest = np.maximum.accumulate(log_e, axis=1)
        before = np.concatenate([np.full((len(highest), 1), -np.inf), highest[:, :-1]], axis=1)
        record = log_e > before
        # A record at n is the first crossing of every c above the previous record, up to E_n.
        first = np.searchsorted(grid, before[record], side="right")
        last = np.searchsorted(grid, log_e[record], side="right")
        for power in (1, 2):
            weight = np.exp(-power * log_e[record])
            sums[power - 1] += np.bincount(first, weight, grid.size + 1)
            sums[power - 1] -= np.bincount(last, weight, grid.size + 1)
    crossing, squares = np.cumsum(sums, axis=1)[:, :-1] / paths
    return [_read(alpha, grid, crossing, squares, paths) for alpha in alphas]


def _read(
    alpha: float, grid: Floats, crossing: Floats, squares: Floats, paths: int
) -> SimulatedThreshold:
    """Return the c of ``grid``, in logs, that is crossed with probability ``alpha``."""
    above = int(np.searchsorted(-crossing, -alpha))  # crossing falls with c
    above = min(max(above, 1), grid.size - 1)
    low, high = math.log(crossing[above - 1]), math.log(crossing[above])
    share = (low - math.log(alpha)) / (low - high)
    log_c = float(grid[above - 1]) + share * float(grid[above] - grid[above - 1])
    slope = (low - high) / float(grid[above] - grid[above - 1])
    deviation = math.sqrt(max(squares[above] - crossing[above] ** 2, 0.0) / paths)
    value = math.exp(log_c)
    # The more steeply the error falls with c, the smaller the standard error of c.
    return SimulatedThreshold(value, value * deviation / alpha / max(slope, 0.5), paths)


def _mixture_paths(rng: np.random.Generator, paths: int, max_n: int) -> Floats:
    """Log e-values at n = 3..max_n, shape (paths, max_n - 2), of paths drawn from the mixture."""
    scale = rng.choice(np.asarray(SCALES), size=paths)
    effect = np.abs(rng.standard_normal(paths)) * np.sqrt(scale)
    x = effect[:, None] + rng.standard_normal((paths, max_n))
    m = running_moments(x)
    first = MIN_PAIRS - 1
    return log_e_from_moments(m.n[:, first:], m.mean[:, first:], m.variance[:, first:])
