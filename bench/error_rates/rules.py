"""The rules being compared: at which looks each of them shows a difference.

Defines the table RULES, with the judge's own tests, vectorised over paths, and three others in
common use: a t-test evaluated after every block, the classic ministat, and Optuna's WilcoxonPruner.

Under a null hypothesis at the boundary of a margin (for pruning, a candidate exactly delta faster)
the margin cancels, so that one set of paths without a difference serves every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tuner.judge.evalue import MIN_PAIRS, Floats, e_values
from tuner.judge.ministat import student_t
from tuner.judge.race import RaceRules
from tuner.judge.robust import sign_flip_e_values
from tuner.judge.thresholds import threshold

Flags = NDArray[np.bool_]

_DEFAULTS: Final = RaceRules(delta=0.02, max_blocks=10)
ALPHA_PRUNE: Final = _DEFAULTS.level_futility
ALPHA_PROMOTE: Final = _DEFAULTS.alpha_promote
ALPHA_CERTIFY: Final = 0.025
_ALPHA: Final = 0.05
_WILCOXON_P: Final = 0.1
_WILCOXON_STARTS: Final = 2
_CLASSIC: Final = 95.0


class Paths:
    """Log times of two arms, shape (paths, blocks, 2), baseline first, and quantities of them."""

    def __init__(self, log_s: Floats) -> None:
        self.log_s = log_s

    @cached_property
    def d(self) -> Floats:
        """Differences, candidate against baseline; positive = slower."""
        return self.log_s[..., 1] - self.log_s[..., 0]

    @cached_property
    def seconds(self) -> Floats:
        return np.exp(self.log_s)

    @cached_property
    def e_slower(self) -> Floats:
        return e_values(self.d)

    @cached_property
    def e_faster(self) -> Floats:
        return e_values(-self.d)

    @cached_property
    def flips_faster(self) -> Floats:
        return sign_flip_e_values(-self.d)

    @cached_property
    def rank_sums(self) -> Floats:
        """Wilcoxon's W+ of the first 1, 2, ... differences (of seconds), shape (paths, blocks).

        W+ is the number of pairs i <= j with x_i + x_j > 0.
        """
        x = self.seconds[..., 1] - self.seconds[..., 0]
        added = np.empty(x.shape)
        for n in range(x.shape[1]):
            added[:, n] = (x[:, : n + 1] + x[:, n, None] > 0.0).sum(axis=1)
        return np.cumsum(added, axis=1)


Looks = Callable[[Paths, int], Flags]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, its nominal error, and whether it is one of the project's own.

    looks: whether the rule shows a difference, for each path and each look up to a horizon; shape
    (paths, looks).
    """

    name: str
    nominal: float
    ours: bool
    looks: Looks


def _looked_at(values: Floats, horizon: int) -> Floats:
    return values[:, MIN_PAIRS - 1 : horizon]


def _pruned(paths: Paths, horizon: int) -> Flags:
    return _looked_at(paths.e_slower, horizon) >= threshold(ALPHA_PRUNE, horizon)


def _promoted(paths: Paths, horizon: int) -> Flags:
    return _looked_at(paths.e_faster, horizon) >= threshold(ALPHA_PROMOTE, horizon)


def certified(paths: Paths, horizon: int) -> Flags:
    """Whether the t-type test shows a gain, for each look from block 3 to the horizon."""
    return _looked_at(paths.e_faster, horizon) >= threshold(ALPHA_CERTIFY, horizon)


def confirmed(paths: Paths, horizon: int) -> Flags:
    """Whether the sign-flip test shows that gain too, for each of the same looks."""
    robust = _looked_at(paths.flips_faster, horizon) >= 1.0 / ALPHA_CERTIFY
    return certified(paths, horizon) & robust


def _worse(paths: Paths, horizon: int) -> Flags:
    return _looked_at(paths.e_slower, horizon) >= threshold(_ALPHA, horizon)


def _worse_ville(paths: Paths, horizon: int) -> Flags:
    return _looked_at(paths.e_slower, horizon) >= threshold(_ALPHA)


def _running_variance(x: Floats) -> tuple[Floats, Floats]:
    """Return mean and sample variance of the first 1, 2, ... values along axis 1.

    The variance of a single value is 0.
    """
    n = np.arange(1, x.shape[1] + 1)
    mean = np.cumsum(x, axis=1) / n
    step = x[:, 1:] - mean[:, :-1]
    squares = np.zeros_like(x)
    np.cumsum(step**2 * n[:-1] / n[1:], axis=1, out=squares[:, 1:])
    return mean, squares / np.maximum(n - 1, 1)


def _paired_t(paths: Paths, horizon: int) -> Flags:
    mean, variance = _running_variance(paths.d[:, :horizon])
    n = np.arange(1, horizon + 1)
    level = stdtrit(np.maximum(n - 1, 1), 1.0 - _ALPHA)
    return _looked_at(mean - level * np.sqrt(variance / n), horizon) > 0.0


def _ministat(paths: Paths, horizon: int) -> Flags:
    """Whether ministat proves a difference in either direction, for each look."""
    base_mean, base_variance = _running_variance(paths.seconds[:, :horizon, 0])
    mean, variance = _running_variance(paths.seconds[:, :horizon, 1])
    n = np.arange(1, horizon + 1)
    level = np.array([student_t(max(2 * int(k) - 2, 1), _CLASSIC) for k in n])
    half = level * np.sqrt((variance + base_variance) / 2.0) * np.sqrt(2.0 / n)
    return _looked_at(np.abs(mean - base_mean) - half, horizon) > 0.0


def _ministat_once(paths: Paths, horizon: int) -> Flags:
    return _ministat(paths, horizon)[:, -1:]


@lru_cache(maxsize=128)
def wilcoxon_level(n: int, p: float) -> int:
    """Return the smallest w with P(W+ >= w) < p for n fair signs, exactly."""
    ways = np.ones(1)
    for rank in range(1, n + 1):
        longer = np.zeros(ways.size + rank)
        longer[: ways.size] += ways
        longer[rank:] += ways
        ways = longer / 2.0
    upper_tail = np.append(np.cumsum(ways[::-1])[::-1], 0.0)
    return int(np.argmax(upper_tail < p))


def wilcoxon_pruned(paths: Paths, horizon: int) -> Flags:
    """Apply Optuna's rule after each block; the best trial is the baseline, with all its steps.

    A trial is pruned if the exact signed-rank test has p < .1 for "slower", unless its mean so far
    is no worse than the best trial's mean over all steps. Looks begin with the second step.
    """
    n = np.arange(1, horizon + 1)
    level = np.array([wilcoxon_level(int(k), _WILCOXON_P) for k in n])
    so_far = np.cumsum(paths.seconds[:, :horizon, 1], axis=1) / n
    best = paths.seconds[:, :horizon, 0].mean(axis=1)
    significant: Flags = paths.rank_sums[:, :horizon] >= level
    pruned: Flags = significant & (best[:, None] < so_far)
    return pruned[:, _WILCOXON_STARTS - 1 :]


RULES: Final[tuple[Rule, ...]] = (
    Rule("prune", ALPHA_PRUNE, True, _pruned),
    Rule("promote", ALPHA_PROMOTE, True, _promoted),
    Rule("certify", ALPHA_CERTIFY, True, certified),
    Rule("certify, robust", ALPHA_CERTIFY, True, confirmed),
    Rule("e-value .05, calibrated", _ALPHA, True, _worse),
    Rule("e-value .05, Ville", _ALPHA, True, _worse_ville),
    Rule("paired t, each look", _ALPHA, False, _paired_t),
    Rule("ministat, each look", _ALPHA, False, _ministat),
    Rule("ministat, once", _ALPHA, False, _ministat_once),
    Rule("WilcoxonPruner p<.1", _WILCOXON_P, False, wilcoxon_pruned),
)


def errors(log_s: Floats, horizons: tuple[int, ...]) -> Mapping[tuple[str, int], int]:
    """Count the paths that each rule gets wrong, by name and horizon; log_s: (paths, blocks, 2)."""
    paths = Paths(log_s)
    return {
        (rule.name, horizon): int(rule.looks(paths, horizon).any(axis=1).sum())
        for rule in RULES
        for horizon in horizons
    }
