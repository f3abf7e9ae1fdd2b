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
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import Floats
from tuner.judge.series import Series

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


def lag_one(series: Series) -> SerialCorrelation | None:
    """Lag-1 autocorrelation of all arms; None where there is too little to tell.

    series: candidates in the order measured, differences to one reference; a missing block breaks
    the chain. Equal readings say nothing: None.
    """
    squares = df = trace = trace_of_square = 0.0
    products = []
    for of_stretch, present in series.stretches():
        # The matrices of one long series, as a baseline's, would not fit into memory.
        part = _of_one(of_stretch, present) if len(present) == 1 else _of(of_stretch, present)
        products.append(part.products)
        squares += part.squares
        df += part.df
        trace += part.trace
        trace_of_square += part.trace_of_square
    pooled = np.concatenate(products) if products else np.empty(0)
    if df < _LEAST or pooled.size < 2:
        return None
    information = trace_of_square - trace**2 / df
    if information <= _ROUNDING or squares <= (_ROUNDING * float(np.abs(series.value).max())) ** 2:
        return None
    alike = 2.0 * information / (df * (df + 2.0))
    scattered = pooled.size * float(pooled.var(ddof=1)) / squares**2
    slope = 2.0 * information / df
    correlation = float(pooled.sum()) / squares - trace / df
    error = math.sqrt(max(alike, scattered))
    value = min(max(correlation / slope, -1.0), 1.0)
    return SerialCorrelation(value, error / slope, correlation / error)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What a stretch adds to the sums: tr(MA), tr(MAMA), df, r'r, and the products in r'Ar."""

    products: Floats
    squares: float
    df: float
    trace: float
    trace_of_square: float


def _of(of_stretch: Floats, present: NDArray[np.bool_]) -> _Stretch:
    there = np.vstack([present.any(axis=0), present])
    basis = _levels(there)
    scores = np.vstack([np.zeros(of_stretch.shape[1]), of_stretch])[there]
    centred = np.zeros(there.shape)
    centred[there] = scores - basis @ (basis.T @ scores)
    pairs = there[:, 1:] & there[:, :-1]
    moved = _neighbours(basis, there)
    inner = basis.T @ moved
    square = 0.5 * float(pairs.sum()) - 2.0 * float((moved**2).sum())
    return _Stretch(
        (centred[:, 1:] * centred[:, :-1]).sum(axis=0)[pairs.any(axis=0)],
        float((centred**2).sum()),
        float(len(basis) - basis.shape[1]),
        -float(np.trace(inner)),
        square + float((inner * inner.T).sum()),
    )


def _of_one(of_stretch: Floats, present: NDArray[np.bool_]) -> _Stretch:
    """As `_of`, of a single candidate: M has C/2 and -C/2 in it, with C = I - 11'/n, and all
    follows from the number of neighbours of each measurement.
    """
    there = present[0]
    n = int(there.sum())
    centred = np.where(there, of_stretch[0] - of_stretch[0][there].mean(), 0.0) / 2.0
    pairs = there[1:] & there[:-1]
    moved = np.zeros(len(there))  # S1, where S is the half of A that is of one arm
    moved[1:] += 0.5 * pairs
    moved[:-1] += 0.5 * pairs
    count = float(pairs.sum())
    return _Stretch(
        (2.0 * centred[1:] * centred[:-1])[pairs],
        2.0 * float((centred**2).sum()),
        n - 1.0,
        -count / n,
        0.5 * count - 2.0 * float((moved**2).sum()) / n + (count / n) ** 2,
    )


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
