"""Tree-structured Parzen estimator (Bergstra et al. 2011): models the good and the bad ones."""

from __future__ import annotations

import optuna

_STARTUP = 8


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """The sampler of this seed."""
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
