"""A genetic algorithm, NSGA-II (Deb et al. 2002): the way that was wished for in 2013."""

from __future__ import annotations

import optuna

_POPULATION = 20


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """The sampler of this seed."""
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=_POPULATION)
