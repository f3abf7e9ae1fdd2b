"""Configurations drawn at random."""

from __future__ import annotations

import optuna


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """The sampler of this seed."""
    return optuna.samplers.RandomSampler(seed=seed)
