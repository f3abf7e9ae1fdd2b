"""Kinds of noise: run times of equally fast configurations, as random paths.

Defines the tables NOISES and ON_TWO_TESTBEDS. A path is one campaign's noise through stages of
blocks; for each stage it has log times (s), shape (paths, blocks, arms). Arm 0 is the baseline, and
each block runs its arms once in fresh random order. All arms have the same mean log time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats


@dataclass(frozen=True, slots=True)
class Stage:
    """Blocks of the same arms.

    twin: whether arm 1 also has the baseline's configuration, and hence its noise rather than a
    candidate's.
    """

    blocks: int
    arms: int
    twin: bool = False


Draw = Callable[[np.random.Generator, int, Sequence[Stage]], list[Floats]]

SD: Final = 0.014
"""Default standard deviation of a log time; that of a difference is 2.0%."""

_HEAVY: Final = 0.05
_SPIKE_SHARE: Final = 0.05
_SPIKE: Final = math.log(1.3)
_DRIFT: Final = 0.002
_STEP: Final = 0.01
_SKEW_SCALE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Noise:
    """One kind of noise. promised: whether the tests promise their error rates under it.

    through: draws paths through the stages of a campaign. Noise with memory carries it over from
    stage to stage; candidates are new in each stage. testbeds: block i of a stage is measured on
    testbed i modulo this number.
    """

    name: str
    meaning: str
    promised: bool
    through: Draw
    testbeds: int = 1

    def draw(self, rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
        """Draw paths of a single stage, of shape (paths, blocks, arms)."""
        return self.through(rng, shape[0], [Stage(shape[1], shape[2])])[0]


_Run = Callable[[np.random.Generator, tuple[int, int, int]], Floats]


def _alike(runs: _Run) -> Draw:
    """Noise without memory that is the same for all arms."""
    return lambda rng, paths, stages: [runs(rng, (paths, s.blocks, s.arms)) for s in stages]


def _normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return np.log1p(SD * rng.standard_normal(shape))


def _log_normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return _HEAVY * rng.standard_normal(shape)


def _t3(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return SD * rng.standard_t(3, shape)


def _spikes(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    return SD * rng.standard_normal(shape) + _SPIKE * (rng.random(shape) < _SPIKE_SHARE)


def _in_random_order(
    rng: np.random.Generator, in_time: Floats, stages: Sequence[Stage]
) -> list[Floats]:
    """Assign each block's runs, given in chronological order, to its arms at random."""
    stages_in_order, start = [], 0
    for stage in stages:
        end = start + stage.blocks * stage.arms
        runs = in_time[:, start:end].reshape(len(in_time), stage.blocks, stage.arms)
        stages_in_order.append(rng.permuted(runs, axis=-1))
        start = end
    return stages_in_order


def _runs(paths: int, stages: Sequence[Stage]) -> tuple[int, int]:
    return paths, sum(stage.blocks * stage.arms for stage in stages)


def _follow(series: Floats, rho: float, before: Floats) -> None:
    """Turn independent values of deviation SD into AR(1) series along the last axis, in place.

    before: the value preceding the first, NaN if the series starts here.
    """
    fresh = math.sqrt(1.0 - rho**2)
    first = rho * before + fresh * series[..., 0]
    series[..., 0] = np.where(np.isnan(before), series[..., 0], first)
    for run in range(1, series.shape[-1]):
        series[..., run] = rho * series[..., run - 1] + fresh * series[..., run]


def _serial(rng: np.random.Generator, paths: int, stages: Sequence[Stage]) -> list[Floats]:
    runs = SD * rng.standard_normal(_runs(paths, stages))
    _follow(runs, 0.3, np.full(paths, np.nan))
    return _in_random_order(rng, runs, stages)


def _drift(rng: np.random.Generator, paths: int, stages: Sequence[Stage]) -> list[Floats]:
    runs = SD * rng.standard_normal(_runs(paths, stages))
    return _in_random_order(rng, runs + _DRIFT * np.arange(runs.shape[1]), stages)


def _walk(rng: np.random.Generator, paths: int, stages: Sequence[Stage]) -> list[Floats]:
    runs = SD * rng.standard_normal((2, *_runs(paths, stages)))
    return _in_random_order(rng, runs[0] + _STEP / SD * np.cumsum(runs[1], axis=-1), stages)


def _tail(*, of_baseline: bool) -> Draw:
    """A tail of slow runs, of either the baseline's configuration only or all others."""

    def through(rng: np.random.Generator, paths: int, stages: Sequence[Stage]) -> list[Floats]:
        series = []
        for stage in stages:
            log_s = SD / 4.0 * rng.standard_normal((paths, stage.blocks, stage.arms))
            baselines = 2 if stage.twin else 1
            tail = log_s[..., :baselines] if of_baseline else log_s[..., baselines:]
            tail += _SKEW_SCALE * (rng.standard_exponential(tail.shape) - 1.0)
            series.append(log_s)
        return series

    return through


def _arm_states(rho: float) -> Draw:
    """Each arm is autocorrelated; the baseline, which is in every stage, across stages too."""

    def through(rng: np.random.Generator, paths: int, stages: Sequence[Stage]) -> list[Floats]:
        series, baseline = [], np.full(paths, np.nan)
        for stage in stages:
            arms = SD * rng.standard_normal((paths, stage.arms, stage.blocks))
            before = np.full((paths, stage.arms), np.nan)
            before[:, 0] = baseline
            _follow(arms, rho, before)
            baseline = arms[:, 0, -1]
            series.append(np.moveaxis(arms, 1, 2))
        return series

    return through


def _on_testbeds(testbeds: int, draw: Draw) -> Draw:
    """Independent noise on each testbed. The blocks of a stage must divide evenly among them."""

    def through(rng: np.random.Generator, paths: int, stages: Sequence[Stage]) -> list[Floats]:
        shares = [replace(stage, blocks=stage.blocks // testbeds) for stage in stages]
        of_each = [draw(rng, paths, shares) for _ in range(testbeds)]
        # Shape (paths, blocks of a testbed, testbeds, arms), then blocks in the order measured.
        together = [np.stack(stage, axis=2) for stage in zip(*of_each, strict=True)]
        return [np.reshape(log_s, (paths, -1, log_s.shape[-1])) for log_s in together]

    return through


NOISES: Final[tuple[Noise, ...]] = (
    Noise("normal", "times normal, sd 1.4%", True, _alike(_normal)),
    Noise("log-normal", "log times normal, sd .05", True, _alike(_log_normal)),
    Noise("t3", "log times t with 3 degrees of freedom, scale .014", True, _alike(_t3)),
    Noise("spikes", "normal, one run in twenty takes 1.3 times as long", True, _alike(_spikes)),
    Noise("AR(.3)", "each run follows the one before, autocorrelation .3", True, _serial),
    Noise("drift", "normal, each run .2% slower than the one before", True, _drift),
    Noise("walk", "normal, and a random walk of 1% a run", True, _walk),
    Noise(
        "skewed D, right",
        "only the candidates have a tail of slow runs",
        False,
        _tail(of_baseline=False),
    ),
    Noise(
        "skewed D, left",
        "only the baseline has a tail of slow runs",
        False,
        _tail(of_baseline=True),
    ),
    Noise("dependent D, .3", "each arm keeps a state, autocorrelation .3", False, _arm_states(0.3)),
    Noise("dependent D, .5", "each arm keeps a state, autocorrelation .5", False, _arm_states(0.5)),
)

ON_TWO_TESTBEDS: Final[tuple[Noise, ...]] = tuple(
    Noise(f"{name}, two testbeds", meaning, promised, _on_testbeds(2, draw), testbeds=2)
    for name, meaning, promised, draw in (
        ("normal", "times normal, sd 1.4%", True, _alike(_normal)),
        ("dependent D, .5", "each arm keeps a state, autocorrelation .5", False, _arm_states(0.5)),
    )
)
"""Kinds of noise of campaigns on two testbeds that take turns."""
