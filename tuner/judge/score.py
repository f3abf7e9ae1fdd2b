"""Scores: from component times of a block to paired log differences.

Owns s = sum w_i ln T_i and the differences built from it. exp of a difference of scores is a
weighted geometric mean of time ratios: the ranking does not depend on the reference (Fleming and
Wallace 1986), and equal percentages count equally. A positive difference means slower. Times are in
seconds, above 0; callers must invert throughputs first. Components are always the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tuner.judge.evalue import Floats

Times = Sequence[Sequence[float]] | Floats

_WEIGHT_TOLERANCE = 1e-6


def checked_weights(weights: Sequence[float] | Floats, components: int) -> Floats:
    """Return `weights` as an array of shape (components,).

    A weight of 0 excludes a component from the score, but its floor still applies. Raises
    ValueError unless there is one finite weight >= 0 per component and they sum to 1 (within 1e-6).
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (components,):
        raise ValueError(f"need {components} weights, one for each component, got {w.size}")
    if not bool(np.all((w >= 0.0) & np.isfinite(w))):
        raise ValueError("weights must be finite and not negative")
    if abs(float(w.sum()) - 1.0) > _WEIGHT_TOLERANCE:
        raise ValueError(f"weights must sum to 1, they sum to {float(w.sum()):g}")
    return w


def component_names(names: Sequence[str], components: int) -> tuple[str, ...]:
    """Return the component names for sentences: `names`, or "component 1", ... if empty.

    Raises ValueError unless there is one name per component or none at all.
    """
    if not names:
        return tuple(f"component {number}" for number in range(1, components + 1))
    if len(names) != components:
        raise ValueError(f"need {components} component names or none, got {len(names)}")
    return tuple(names)


def log_times(times: Times | Sequence[float]) -> Floats:
    """ln T, any shape. ValueError, naming the index, unless every time is finite and above 0."""
    t = np.asarray(times, dtype=np.float64)
    bad = ~((t > 0.0) & np.isfinite(t))
    if bool(bad.any()):
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"time at index {index} must be finite and above 0 s, got {t[index]}")
    return np.asarray(np.log(t), dtype=np.float64)


def log_scores(times: Times | Sequence[float], weights: Sequence[float] | Floats) -> Floats:
    """s = sum w_i ln T_i: times (..., components) to scores (...).

    Raises ValueError as `log_times` and `checked_weights` do, and for a single number.
    """
    logs = log_times(times)
    if logs.ndim == 0:
        raise ValueError("times must be a sequence, got a single number")
    return np.asarray(logs @ checked_weights(weights, logs.shape[-1]), dtype=np.float64)


def component_differences(candidate: Times, reference: Times) -> Floats:
    """D_c = ln T_candidate - ln T_reference, both (blocks, components), paired by block."""
    mine, other = log_times(candidate), log_times(reference)
    if mine.shape != other.shape or mine.ndim != 2:
        raise ValueError(
            f"paired times must both be (blocks, components), got {mine.shape} and {other.shape}"
        )
    return mine - other


def score_differences(
    candidate: Times, reference: Times, weights: Sequence[float] | Floats
) -> Floats:
    """D = s_candidate - s_reference, shape (blocks,); arguments as for `component_differences`."""
    d = component_differences(candidate, reference)
    return np.asarray(d @ checked_weights(weights, d.shape[-1]), dtype=np.float64)


def margin(fraction: float) -> float:
    """ln(1 + fraction): a margin in log units. ValueError unless the fraction is above 0."""
    if not 0.0 < fraction < math.inf:
        raise ValueError(f"a margin must be a fraction above 0, got {fraction}")
    return math.log1p(fraction)
