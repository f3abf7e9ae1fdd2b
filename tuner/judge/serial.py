"""Serial dependence: the autocorrelation of arms from block to block.

Owns the lag-1 autocorrelation of the arms behind differences, with its standard error. It works on
the arms rather than on the differences, so that the reference, which is in all differences, is
counted only once, and arm and block effects are fitted first so that they do not count as
dependence.

A stretch is a sequence of blocks in which no series begins except at its start. In each stretch the
residuals r = M y of the scores y are those of least squares (M: the residual projection of arm and
block effects). With A the matrix that has 1/2 wherever two measurements are of the same arm in
consecutive blocks, summed over stretches,

    I = r'Ar / r'r,    E I = tr(MA) / df,    Var I = 2 J / (df (df + 2)),
    J = tr(MAMA) - tr(MA)^2 / df,    df = tr(M),

exactly for independent normal scores of equal deviation (Durbin and Watson 1950; Moran's I of
residuals, Cliff and Ord 1972). To first order, an autocorrelation rho of every arm shifts E I by
2 rho J / df, which is used to scale I to rho. If deviations differ between arms or stretches, the
products scatter more, so the larger of Var I and the empirical variance of the blocks' products is
used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import Floats
from tuner.judge.series import Series

# Minimum degrees of freedom for an estimate: those of a single series of five blocks.
_LEAST: Final = 4

# Residuals below this fraction of the differences, or of a degree of freedom, are rounding errors.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class SerialCorrelation:
    """Lag-1 autocorrelation within [-1, 1], its deviation under independence, and its z."""

    value: float
    error: float
    z: float


def lag_one(series: Series) -> SerialCorrelation | None:
    """Lag-1 autocorrelation of all arms; None if there is too little data.

    series: candidates in the order measured, as differences from one reference; a missing block
    breaks the chain. Equal readings carry no information and give None.
    """
    squares = df = trace = trace_of_square = 0.0
    products = []
    for of_stretch, present in series.stretches():
        # The matrices of one long series, such as a baseline's, would not fit into memory.
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
    """A stretch's contribution to the sums: tr(MA), tr(MAMA), df, r'r, and the products of r'Ar."""

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
    """Like `_of`, for a single candidate: M consists of blocks C/2 and -C/2, with C = I - 11'/n, so
    the number of neighbours of each measurement is all that is needed.
    """
    there = present[0]
    n = int(there.sum())
    centred = np.where(there, of_stretch[0] - of_stretch[0][there].mean(), 0.0) / 2.0
    pairs = there[1:] & there[:-1]
    moved = np.zeros(len(there))  # S1, where S is the part of A that belongs to one arm
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
    """Orthonormal basis of the arm and block effects, one row per measurement.

    The reference is in every block, so its level follows from those of the other arms and the
    blocks.
    """
    arm, block = np.nonzero(there)
    used = np.flatnonzero(there[0])
    design = np.hstack([arm[:, None] == np.arange(1, len(there)), block[:, None] == used])
    basis: Floats = np.linalg.qr(design.astype(np.float64))[0]
    return basis


def _neighbours(basis: Floats, there: NDArray[np.bool_]) -> Floats:
    """A times the basis: for each measurement, half the sum over its arm's neighbours in time."""
    grid = np.zeros((*there.shape, basis.shape[1]))
    grid[there] = basis
    moved = np.zeros_like(grid)
    moved[:, 1:] += grid[:, :-1]
    moved[:, :-1] += grid[:, 1:]
    halves: Floats = 0.5 * moved[there]
    return halves
