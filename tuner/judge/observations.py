"""Observations of arms: their differences from the baseline in log times and in covariates.

Owns the rows that an adjustment is fitted to and their two-way residuals, the values with block and
trial effects removed: configurations differ, and so do blocks, and neither difference may be
mistaken for the effect of a covariate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import Floats, Ints

#: Maximum number of sweeps over blocks and trials, and the convergence tolerance, relative to the
#: largest value.
_MOST_SWEEPS: Final = 200
_STILL: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Observations:
    """Arms against the baseline of the same block; one row for each arm except the baseline's.

    ``trial``, ``block``: (rows,), integers; trial 0 is the baseline. ``logs``: (rows, components),
    log time ratios. ``covariates``: (rows, covariates), differences in processors in the order of
    ``tuner.model.COVARIATES``; NaN unless present for both arms.
    """

    trial: Ints
    block: Ints
    logs: Floats
    covariates: Floats

    def only(self, mask: NDArray[np.bool_]) -> Observations:
        """Return the rows selected by ``mask``, shape (rows,)."""
        return Observations(
            self.trial[mask], self.block[mask], self.logs[mask], self.covariates[mask]
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """All arms, sorted by block, including the baseline's, whose differences are 0.

    ``trial``, ``block``: (arms,), renumbered from 0; the baseline is trial 0. ``y``: (arms,
    targets); ``z``: (arms, covariates). ``numbers``: (trials,), the original trial numbers of
    ``Observations``.
    """

    trial: Ints
    block: Ints
    y: Floats
    z: Floats
    numbers: Ints

    @classmethod
    def of(cls, observations: Observations, y: Floats, columns: Ints) -> Self:
        """Build the rows that have all of these covariates. ``y``: targets, (rows, targets)."""
        z = observations.covariates[:, columns]
        complete = ~np.isnan(z).any(axis=1)
        blocks, block = np.unique(observations.block[complete], return_inverse=True)
        base = len(blocks)
        trial = np.concatenate([np.zeros(base, np.int64), observations.trial[complete]])
        block = np.concatenate([np.arange(base), block])
        numbers, trial = np.unique(trial, return_inverse=True)
        order = np.argsort(block, kind="stable")
        whole_y = np.concatenate([np.zeros((base, y.shape[1])), y[complete]])
        whole_z = np.concatenate([np.zeros((base, z.shape[1])), z[complete]])
        return cls(trial[order], block[order], whole_y[order], whole_z[order], numbers)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return int(self.block[-1]) + 1 if self.block.size else 0

    @property
    def freedom(self) -> int:
        """Degrees of freedom of two-way residuals: arms minus block and trial parameters."""
        return len(self.trial) - self.blocks - len(self.numbers) + 1

    def within(self, values: Floats) -> Floats:
        """Two-way residuals of ``values`` (arms, columns): subtract block means and trial means in
        turn until convergence.
        """
        result = values.astype(np.float64, copy=True)
        limit = _STILL * max(float(np.abs(result).max(initial=0.0)), 1e-300)
        for _ in range(_MOST_SWEEPS):
            result -= means(result, self.block)[self.block]
            of_trial = means(result, self.trial)
            result -= of_trial[self.trial]
            if float(np.abs(of_trial).max(initial=0.0)) <= limit:
                break
        return result


def means(values: Floats, group: Ints) -> Floats:
    """The mean of ``values`` (rows, columns) in each group, numbered from 0: (groups, columns)."""
    counts = np.maximum(np.bincount(group), 1)
    sums = [np.bincount(group, weights=column) for column in values.T]
    return np.stack(sums, axis=1) / counts[:, None] if sums else np.empty((len(counts), 0))
