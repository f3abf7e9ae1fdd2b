"""The effect of each noise-reduction measure, on data with known noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.judge.adjustment import Adjustment, fit_adjustment, no_adjustment
from tuner.judge.evalue import Floats, Ints
from tuner.judge.noise import MIN_FREEDOM, noise_report
from tuner.judge.noise_records import NoiseMeasure, NoiseReport
from tuner.judge.observations import Observations
from tuner.model import COVARIATES

WEIGHTS = (0.5, 0.5)
BLOCKS, ARMS = 150, 4
SHARED, OWN = 0.2, 0.05


def arms() -> tuple[Ints, Ints]:
    """Return trial and block of each arm: trial 0 and three of a dozen others in every block."""
    rng = np.random.default_rng(1)
    trial = [[0, *rng.choice(np.arange(1, 13), ARMS - 1, replace=False)] for _ in range(BLOCKS)]
    block = np.repeat(np.arange(BLOCKS), ARMS)
    return np.array(trial).ravel(), block


def logs(trial: Ints, block: Ints, seed: int = 2) -> Floats:
    """Draw log times: each trial has its own mean; a block shifts all of its arms."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0.0, 0.3, (13, 2))
    level = rng.normal(0.0, SHARED, BLOCKS)
    own = rng.normal(0.0, OWN, (len(trial), 2))
    return np.asarray(means[trial] + level[block][:, None] + own)


def report(
    first: Floats | None = None, adjustment: Adjustment | None = None, whole: Floats | None = None
) -> NoiseReport:
    trial, block = arms()
    values = logs(trial, block) if whole is None else whole
    used = adjustment or no_adjustment(2, "no adjustment: nothing is known")
    result = noise_report(trial, block, values, values if first is None else first, WEIGHTS, used)
    assert result is not None
    return result


def variances(noise: NoiseReport) -> dict[NoiseMeasure, float]:
    return {level.measure: level.score for level in noise.levels}


def test_pairing_removes_noise_common_to_a_block() -> None:
    noise = report()
    by = variances(noise)
    own = 2.0 * OWN**2 / 2.0  # of a score of two components of equal weight
    assert by[NoiseMeasure.PAIRED] == pytest.approx(own, rel=0.15)
    assert by[NoiseMeasure.RAW] == pytest.approx(own + 2.0 * SHARED**2, rel=0.25)
    assert by[NoiseMeasure.AGAIN] == by[NoiseMeasure.ADJUSTED] == by[NoiseMeasure.PAIRED]
    assert noise.levels[0].share == 1.0
    assert noise.levels[1].components == pytest.approx((2.0 * OWN**2,) * 2, rel=0.2)
    assert noise.levels[1].sd == pytest.approx(math.sqrt(by[NoiseMeasure.PAIRED]))
    assert (noise.arms, noise.freedom) == (BLOCKS * ARMS, BLOCKS * ARMS - BLOCKS - 12)
    assert noise.again == 0


def test_arms_measured_again_count_with_their_first_and_their_last_times() -> None:
    trial, block = arms()
    values = logs(trial, block)
    first = values.copy()
    first[7] += 1.0
    first[401] += 1.0
    noise = report(first=first)
    by = variances(noise)
    assert noise.again == 2
    assert by[NoiseMeasure.PAIRED] > 1.5 * by[NoiseMeasure.AGAIN]
    assert by[NoiseMeasure.AGAIN] == pytest.approx(variances(report())[NoiseMeasure.PAIRED])


def test_an_adjustment_counts_with_its_held_out_variance() -> None:
    trial, block = arms()
    rng = np.random.default_rng(5)
    others = np.abs(rng.normal(0.0, 0.3, len(trial)))
    values = logs(trial, block) + 0.3 * others[:, None]
    base = {int(b): n for n, (t, b) in enumerate(zip(trial, block, strict=True)) if t == 0}
    rows = np.flatnonzero(trial > 0)
    of_base = np.array([base[int(b)] for b in block[rows]])
    covariates = np.full((len(rows), len(COVARIATES)), np.nan)
    covariates[:, COVARIATES.index("others_server")] = others[rows] - others[of_base]
    observations = Observations(
        trial[rows], block[rows], values[rows] - values[of_base], covariates
    )
    adjustment = fit_adjustment(observations, WEIGHTS)
    assert adjustment.score.used
    noise = report(adjustment=adjustment, whole=values)
    by = variances(noise)
    clean = variances(report())[NoiseMeasure.PAIRED]
    assert by[NoiseMeasure.ADJUSTED] == pytest.approx(clean, rel=0.15)
    assert by[NoiseMeasure.PAIRED] > 1.8 * clean
    assert "others" in noise.adjustment


def test_too_little_data_gives_no_report() -> None:
    trial, block = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    few = noise_report(
        trial, block, np.ones((4, 2)), np.ones((4, 2)), WEIGHTS, no_adjustment(2, "none")
    )
    assert few is None
    trial = np.tile([0, 1], MIN_FREEDOM + 1)
    block = np.repeat(np.arange(MIN_FREEDOM + 1), 2)
    constant = np.ones((len(trial), 2))
    assert noise_report(trial, block, constant, constant, WEIGHTS, no_adjustment(2, "")) is None
