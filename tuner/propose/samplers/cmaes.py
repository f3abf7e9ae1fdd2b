"""CMA-ES (Hansen 2001): a search distribution that adapts to the results.

Choices, and whether to set a parameter at all, are whole numbers for it; see ``flat.py``.
"""

from __future__ import annotations

import optuna

_STARTUP = 8


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Create a sampler with this seed."""
    return optuna.samplers.CmaEsSampler(
        seed=seed, n_startup_trials=_STARTUP, warn_independent_sampling=False
    )
