"""Serial dependence: whether arms follow themselves from block to block.

Owns the lag-1 autocorrelation of the arms behind differences, with its standard error. One path
through the blocks tells of every arm in it, so that the reference, which is in all differences, is
not counted more than once, and neither are the levels of arms and blocks, which are fitted first.

In each stretch of blocks with the same beginnings the residuals r = M y of the scores y are what
least squares leave of them (M: the residual projection of arm and block levels). With A the matrix
that has 1/2 where two measurements are of one arm in consecutive blocks, summed over stretches,

    I = r'Ar / r'r,    E I = tr(MA) / df,    Var I = 2 J / (df (df + 2)),
    J = tr(MAMA) - tr(MA)^2 / df,    df = tr(M),

exactly for independent normal scores of equal deviation (Durbin and Watson 1950; Moran's I of
residuals, Cliff and Ord 1972). An autocorrelation rho of every arm moves E I by 2 rho J / df at
first order, which puts I on the scale of rho. Where deviations differ between arms or stretches the
products scatter more; the larger of Var I and of the variance seen in the blocks' products counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import Floats

# Fewest degrees of freedom that say anything: those of a single series of five blocks.
_LEAST: Final = 4

# Part of the differences, and of a degree of freedom, below which a residual is a rounding error.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class SerialCorrelation:
    """Lag-1 autocorrelation within [-1, 1], its deviation without any, and its z."""

    value: float
    error: float
    z: float


def lag_one(d: Floats, present: NDArray[np.bool_]) -> SerialCorrelation | None:
    """Lag-1 autocorrelation of all arms; None where there is too little to tell.

    d, present: (candidates, blocks) in the order measured, differences to one reference; a missing
    block breaks the chain. Equal readings say nothing: None.
    """
    squares = df = trace = trace_of_square = 0.0
    products = []
    for of_stretch, there in _stretches(d, present):
        basis = _levels(there)
        scores = np.vstack([np.zeros(of_stretch.shape[1]), of_stretch])[there]
        left = np.zeros(there.shape)
        left[there] = scores - basis @ (basis.T @ scores)
        pairs = there[:, 1:] & there[:, :-1]
        products.append((left[:, 1:] * left[:, :-1]).sum(axis=0)[pairs.any(axis=0)])
        moved = _neighbours(basis, there)
        inner = basis.T @ moved
        squares += float((left**2).sum())
        df += float(len(basis) - basis.shape[1])
        trace -= float(np.trace(inner))
        trace_of_square += 0.5 * float(pairs.sum()) - 2.0 * float((moved**2).sum())
        trace_of_square += float((inner * inner.T).sum())
    seen = np.concatenate(products) if products else np.empty(0)
    if df < _LEAST or seen.size < 2:
        return None
    told = trace_of_square - trace**2 / df
    if told <= _ROUNDING or squares <= (_ROUNDING * float(np.abs(d).max())) ** 2:
        return None
    alike = 2.0 * told / (df * (df + 2.0))
    scattered = seen.size * float(seen.var(ddof=1)) / squares**2
    slope = 2.0 * told / df
    found = float(seen.sum()) / squares - trace / df
    error = math.sqrt(max(alike, scattered))
    value = min(max(found / slope, -1.0), 1.0)
    return SerialCorrelation(value, error / slope, found / error)


def _stretches(d: Floats, present: NDArray[np.bool_]) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    """Differences (candidates, blocks) of the series in a stretch, and where each arm was, the
    reference first; a stretch ends where a series begins.
    """
    if not present.any():
        return
    begins = np.zeros(d.shape[1], dtype=np.int64)
    begins[present.argmax(axis=1)] = 1
    stretches = np.cumsum(begins)
    for number in range(1, int(stretches[-1]) + 1):
        here = stretches == number
        there = present[:, here]
        of_stretch = there.any(axis=1)
        there = there[of_stretch]
        yield d[of_stretch][:, here], np.vstack([there.any(axis=0), there])


def _levels(there: NDArray[np.bool_]) -> Floats:
    """An orthonormal basis of the levels of arms and blocks, a row a measurement.

    The reference is in every block, so its level is that of the others and the blocks together.
    """
    arm, block = np.nonzero(there)
    used = np.flatnonzero(there[0])
    design = np.hstack([arm[:, None] == np.arange(1, len(there)), block[:, None] == used])
    basis: Floats = np.linalg.qr(design.astype(np.float64))[0]
    return basis


def _neighbours(basis: Floats, there: NDArray[np.bool_]) -> Floats:
    """A times the basis: of each measurement, half the sum over its arm's neighbours in time."""
    grid = np.zeros((*there.shape, basis.shape[1]))
    grid[there] = basis
    moved = np.zeros_like(grid)
    moved[:, 1:] += grid[:, :-1]
    moved[:, :-1] += grid[:, 1:]
    halves: Floats = 0.5 * moved[there]
    return halves
