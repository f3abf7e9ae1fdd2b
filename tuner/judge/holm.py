"""Holm's step-down: many tests with one family-wise error rate.

Owns the multiplicity correction of p-values, valid under any dependence between the tests. Source:
Holm (1979). For certificates of several finalists see `certify.certify_several`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.judge.evalue import Floats


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Return adjusted p-values, shape (m,) as `p_values`: reject those <= alpha.

    With m p-values in ascending order, the k-th becomes the maximum of (m - j + 1) p_j over j <= k,
    capped at 1; P(any true hypothesis is rejected) <= alpha. Raises ValueError for more than one
    axis and for values that are not between 0 and 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p-values must have one axis, got shape {p.shape}")
    if not bool(np.all((p >= 0.0) & (p <= 1.0))):
        raise ValueError("p-values must be between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
