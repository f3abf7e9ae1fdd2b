"""Tree-structured Parzen estimator (Bergstra et al. 2011): models good and bad configurations."""

from __future__ import annotations

import optuna

_STARTUP = 8


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Create a sampler with this seed."""
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
