"""Kinds of noise: run times of configurations that all perform alike, as random paths.

Owns the table NOISES. A draw gives log times (s), shape (paths, blocks, arms); arm 0 is the
baseline, and each block runs its arms once in fresh random order. No arm is faster than another in
the mean of its log time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats

Draw = Callable[[np.random.Generator, tuple[int, int, int]], Floats]

SD: Final = 0.014
"""Standard deviation of a log time unless told otherwise; that of a difference is 2.0 %."""

_HEAVY: Final = 0.05
_SPIKE_SHARE: Final = 0.05
_SPIKE: Final = math.log(1.3)
_DRIFT: Final = 0.002
_STEP: Final = 0.01
_SKEW_SCALE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Noise:
    """One kind of noise. promised: whether the tests promise their error rates under it."""

    name: str
    meaning: str
    promised: bool
    draw: Draw


def _normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return np.log1p(SD * rng.standard_normal(shape))


def _log_normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return _HEAVY * rng.standard_normal(shape)


def _t3(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return SD * rng.standard_t(3, shape)


def _spikes(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return SD * rng.standard_normal(shape) + _SPIKE * (rng.random(shape) < _SPIKE_SHARE)


def _autocorrelated(rng: np.random.Generator, runs: tuple[int, int], rho: float) -> Floats:
    """AR(1) series of deviation SD along the last axis."""
    series = SD * rng.standard_normal(runs)
    for run in range(1, runs[1]):
        series[:, run] = rho * series[:, run - 1] + math.sqrt(1.0 - rho**2) * series[:, run]
    return series


def _in_random_order(
    rng: np.random.Generator, in_time: Floats, shape: tuple[int, int, int]
) -> Floats:
    """Give each block's runs, in the order they were made, to its arms by lot."""
    return rng.permuted(in_time.reshape(shape), axis=-1)


def _serial(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    runs = _autocorrelated(rng, (shape[0], shape[1] * shape[2]), 0.3)
    return _in_random_order(rng, runs, shape)


def _drift(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    runs = SD * rng.standard_normal((shape[0], shape[1] * shape[2]))
    return _in_random_order(rng, runs + _DRIFT * np.arange(runs.shape[1]), shape)


def _walk(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    runs = SD * rng.standard_normal((2, shape[0], shape[1] * shape[2]))
    return _in_random_order(rng, runs[0] + _STEP / SD * np.cumsum(runs[1], axis=-1), shape)


def _candidate_tail(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    log_s = SD / 4.0 * rng.standard_normal(shape)
    log_s[..., 1:] += _SKEW_SCALE * (rng.standard_exponential(log_s[..., 1:].shape) - 1.0)
    return log_s


def _baseline_tail(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    log_s = SD / 4.0 * rng.standard_normal(shape)
    log_s[..., 0] += _SKEW_SCALE * (rng.standard_exponential(shape[:2]) - 1.0)
    return log_s


def _arm_states(rho: float) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
        paths, blocks, arms = shape
        series = _autocorrelated(rng, (paths * arms, blocks), rho)
        return np.moveaxis(series.reshape(paths, arms, blocks), 1, 2)

    return draw


NOISES: Final[tuple[Noise, ...]] = (
    Noise("normal", "times normal, sd 1.4 %", True, _normal),
    Noise("log-normal", "log times normal, sd .05", True, _log_normal),
    Noise("t3", "log times t with 3 degrees of freedom, scale .014", True, _t3),
    Noise("spikes", "normal, one run in twenty takes 1.3 times as long", True, _spikes),
    Noise("AR(.3)", "each run follows the one before, autocorrelation .3", True, _serial),
    Noise("drift", "normal, each run .2 % slower than the one before", True, _drift),
    Noise("walk", "normal, and a random walk of 1 % a run", True, _walk),
    Noise(
        "skewed D, right", "only the candidates have a tail of slow runs", False, _candidate_tail
    ),
    Noise("skewed D, left", "only the baseline has a tail of slow runs", False, _baseline_tail),
    Noise("dependent D, .3", "each arm keeps a state, autocorrelation .3", False, _arm_states(0.3)),
    Noise("dependent D, .5", "each arm keeps a state, autocorrelation .5", False, _arm_states(0.5)),
)
