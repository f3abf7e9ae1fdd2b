"""NSGA-II (Deb et al. 2002): a genetic algorithm, the approach that was asked for in 2013."""

from __future__ import annotations

import optuna

_POPULATION = 20


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Create a sampler with this seed."""
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=_POPULATION)
