"""Test whether the effect of a configuration differs between testbeds.

A campaign on several testbeds pools their differences, which is valid if they are alike. Pairing
removes an overall speed difference between testbeds, but not a difference in which configuration is
best. That is tested here on the differences from the baseline of all trials, including the pilot's
twin: if nothing is wrong, their distribution is the same on every testbed.

For one comparison with n_t differences D on testbed t, N in total on T testbeds, the statistic of
the one-way analysis of variance is

    F = [ sum_t n_t (mean_t - mean)^2 / (T - 1) ] / [ sum_t sum_i (D_ti - mean_t)^2 / (N - T) ]

with F(T - 1, N - T) under the null (Fisher 1925; Scheffe 1959, chapter 3). Batches measure on all
testbeds equally often, and with equal n_t unequal variances have little effect on it (Box 1954).
The comparisons of a campaign share baseline runs and so are dependent; their p-values are combined
by Holm's step-down, which is valid under any dependence. The warning level is 1%: of sound
campaigns, 1 in 100 warns at a look.

What to expect of 5 blocks on each of 4 testbeds, one of them off by twice sd(D) for one trial: it
is detected in 58% if that is the only trial, and in 36% if there are four; off by three times
sd(D), in 96% and 85%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.holm import holm
from tuner.judge.special import fdtrc
from tuner.judge.words import change

ALPHA: Final = 0.01
"""Probability of a warning about testbeds that are alike, at one look."""

_FEWEST: Final = 2
"""Minimum number of differences on a testbed for a comparison: a single one has no spread."""

# Equal readings, such as those of a coarse clock, have no spread apart from rounding.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class TestbedEffect:
    """The comparison that differs most between testbeds.

    trial: the compared trial; p: adjusted for all comparisons by Holm; by_testbed: its mean
    difference from the baseline on each testbed, log units. shown: p is at most ALPHA. reason: one
    sentence.
    """

    __test__ = False
    trial: int
    p: float
    by_testbed: Mapping[str, float]
    shown: bool
    reason: str


def between_testbeds(
    differences: Mapping[int, Mapping[str, Sequence[float]]],
) -> TestbedEffect | None:
    """Compare testbeds by the differences from the baseline (log units), by trial and testbed.

    Testbeds with a single difference of a trial are left out. Returns None if no trial has two
    testbeds to compare. Raises ValueError for differences that are not finite.
    """
    by_trial: dict[int, tuple[float, dict[str, float]]] = {}
    for trial, by_testbed in differences.items():
        groups = {
            name: np.asarray(values, dtype=np.float64)
            for name, values in by_testbed.items()
            if len(values) >= _FEWEST
        }
        if len(groups) >= 2:
            means = {name: float(values.mean()) for name, values in groups.items()}
            by_trial[trial] = (one_way(list(groups.values())), means)
    if not by_trial:
        return None
    adjusted = dict(zip(by_trial, holm([p for p, _ in by_trial.values()]).tolist(), strict=True))
    trial = min(by_trial, key=lambda each: (adjusted[each], by_trial[each][0], each))
    p, means = adjusted[trial], by_trial[trial][1]
    is_shown = p <= ALPHA
    effects = ", ".join(f"{change(mean)} on {name}" for name, mean in sorted(means.items()))
    reason = (
        f"the testbeds show different effects of trial {trial}: {effects}; what is shown for all "
        "of them together need not apply to each"
        if is_shown
        else "the testbeds do not show different effects"
    )
    return TestbedEffect(trial, p, means, is_shown, f"{reason} (p = {p:.2g})")


def one_way(groups: Sequence[np.typing.NDArray[np.float64]]) -> float:
    """Return the p-value of equal means in two or more groups of two or more values each.

    Raises ValueError for fewer, and for values that are not finite.
    """
    if len(groups) < 2 or any(len(group) < _FEWEST for group in groups):
        raise ValueError("need at least two groups with at least two values each")
    every = np.concatenate(groups)
    if not bool(np.isfinite(every).all()):
        raise ValueError("differences must be finite")
    middle = float(every.mean())
    between = sum(len(group) * float((group.mean() - middle) ** 2) for group in groups)
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    over, under = len(groups) - 1, len(every) - len(groups)
    nothing = (_ROUNDING * max(1.0, float(np.abs(every).max()))) ** 2 * len(every)
    if within <= nothing:
        return 1.0 if between <= nothing else 0.0
    return float(fdtrc(over, under, between / over / (within / under)))
