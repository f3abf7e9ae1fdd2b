"""Simulated blocks of arms disturbed by other load, with known coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.judge.observations import Observations
from tuner.model import COVARIATES

OTHERS, STOLEN = COVARIATES.index("others_server"), COVARIATES.index("stolen_server")


@dataclass(frozen=True)
class World:
    """``others``, ``stolen``: cost of a processor, in log units of time; ``noise``: of an arm;
    ``busy``, ``theft``: mean processors used and stolen, exponentially distributed; ``influence``:
    additional processors that trial 1 lets others use, at no cost to itself.
    """

    blocks: int = 12
    arms: int = 4
    others: float = 0.33
    stolen: float = 0.0
    noise: float = 0.085
    busy: float = 0.3
    theft: float = 0.0
    influence: float = 0.0
    components: int = 1

    def observations(self, seed: int) -> Observations:
        """Trial 1 is in every block, the others in four each; trial and block effects differ."""
        rng = np.random.default_rng(seed)
        rows: list[tuple[int, int]] = []
        logs, covariates = [], []
        for block in range(self.blocks):
            first = 2 + block // 4 * (self.arms - 2)
            trials = [0, 1, *range(first, first + self.arms - 2)]
            z = np.full((self.arms, len(COVARIATES)), np.nan)
            z[:, OTHERS] = rng.exponential(self.busy, self.arms)
            z[:, STOLEN] = rng.exponential(self.theft, self.arms)
            cost = self.others * z[:, OTHERS] + self.stolen * z[:, STOLEN]
            z[1, OTHERS] += self.influence
            y = cost[:, None] + self.noise * rng.standard_normal((self.arms, self.components))
            y += 0.1 * np.array(trials)[:, None] + rng.normal(0.0, 0.5)
            rows += [(trial, block) for trial in trials[1:]]
            logs += [*(y[1:] - y[0])]
            covariates += [*(z[1:] - z[0])]
        trial, block_of = np.array(rows).T
        return Observations(trial, block_of, np.array(logs), np.array(covariates))
