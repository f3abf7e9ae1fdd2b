"""Configurations drawn at random."""

from __future__ import annotations

import optuna


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Create a sampler with this seed."""
    return optuna.samplers.RandomSampler(seed=seed)
