"""The simulation behind the table of thresholds, by importance sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.judge.evalue import MIN_PAIRS, SCALES, Floats, log_e_from_moments, running_moments


@dataclass(frozen=True, slots=True)
class SimulatedThreshold:
    """A simulated threshold and its Monte Carlo standard error (both on the scale of E)."""

    value: float
    standard_error: float


def simulate_thresholds(
    alphas: Sequence[float], max_n: int, *, paths: int, seed: int
) -> list[SimulatedThreshold]:
    """Compute c with P(E_n >= c for some 3 <= n <= max_n) = alpha for normal differences of mean 0,
    for each of ``alphas`` from the same paths.

    Uses importance sampling. E is the likelihood ratio of the mixture (effects |N(0, g)| in units
    of the standard deviation) to the null, so with t the first n at which E reaches c,
    P_null(t <= max_n) is the mean of 1/E_t over paths drawn from the mixture, where crossings are
    common: 20,000 paths give about one percent accuracy at any alpha, where plain null paths would
    need millions.

    paths: number of simulated paths, drawn in batches to bound memory.
    """
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
    return SimulatedThreshold(value, value * deviation / alpha / max(slope, 0.5))


def _mixture_paths(rng: np.random.Generator, paths: int, max_n: int) -> Floats:
    """Log e-values at n = 3..max_n, shape (paths, max_n - 2), of paths drawn from the mixture."""
    scale = rng.choice(np.asarray(SCALES), size=paths)
    effect = np.abs(rng.standard_normal(paths)) * np.sqrt(scale)
    x = effect[:, None] + rng.standard_normal((paths, max_n))
    m = running_moments(x)
    first = MIN_PAIRS - 1
    return log_e_from_moments(m.n[:, first:], m.mean[:, first:], m.variance[:, first:])
