"""Regression with one variance for each group: what it recovers, and that both forms agree."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.propose import regression
from tuner.propose.encoding import Floats
from tuner.propose.regression import Fit, Regression, Variances

GROUPS = [slice(0, 4), slice(4, 10), slice(10, 12)]
NOISE = 0.03
PRIOR = Variances(np.full(3, 0.02**2), NOISE**2)


def data(rows: int, seed: int = 1) -> tuple[Floats, Floats, Floats]:
    """Return a design, values, and the true weights: only the second group has an effect."""
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((rows, 12))
    weights = np.zeros(12)
    weights[GROUPS[1]] = 0.1 * rng.standard_normal(6)
    return design, design @ weights + NOISE * rng.standard_normal(rows), weights


def fit(rows: int, rounds: int = 20) -> Fit:
    design, values, _ = data(rows)
    return Regression(design, GROUPS, rows).fit(values, PRIOR, rounds)


@pytest.mark.parametrize("rows", [1, 5, 20, 60])
def test_the_matrix_of_the_rows_and_that_of_the_weights_give_the_same_fit(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    for few in (0.0, 1e9):
        monkeypatch.setattr(regression, "_FEW_ROWS", few)
        fits.append(fit(rows))
    by_weights, by_rows = fits
    assert by_rows.mean == pytest.approx(by_weights.mean, rel=1e-7, abs=1e-12)
    assert by_rows.covariance == pytest.approx(by_weights.covariance, rel=1e-7, abs=1e-12)
    assert by_rows.variances.groups == pytest.approx(by_weights.variances.groups, rel=1e-7)
    assert by_rows.variances.noise == pytest.approx(by_weights.variances.noise, rel=1e-7)


def test_a_group_without_an_effect_shrinks_and_one_with_an_effect_does_not() -> None:
    result = fit(200)
    _, _, weights = data(200)
    assert np.abs(result.mean - weights).max() < 4.0 * NOISE / 200**0.5
    nothing, effect, also_nothing = result.variances.groups
    assert nothing < PRIOR.groups[0] / 2
    assert also_nothing < PRIOR.groups[0] / 2
    assert 0.03**2 < effect < 0.3**2
    assert result.variances.noise == pytest.approx(NOISE**2, rel=0.25)


def test_the_covariance_covers_the_error_of_the_weights() -> None:
    inside = total = 0
    for seed in range(60):
        design, values, weights = data(40, seed)
        fit = Regression(design, GROUPS, 40.0).fit(values, PRIOR, 20)
        error = np.sqrt(np.diag(fit.covariance))
        own = slice(4, 10)
        inside += int((np.abs(fit.mean - weights)[own] < 1.96 * error[own]).sum())
        total += 6
    # 360 intervals at 95%; they depend on each other little. Four standard errors are 5%.
    assert 0.90 <= inside / total <= 1.0


def test_a_fit_continues_from_the_variances_of_a_smaller_one() -> None:
    design, values, _ = data(60)
    first = Variances(PRIOR.groups[:2], 1.0)
    smaller = Regression(design[:, :10], GROUPS[:2], 60.0).fit(values, first, 30)
    whole = Regression(design, GROUPS, 60.0)
    short = whole.fit(values, PRIOR, 3, smaller)
    long = whole.fit(values, PRIOR, 200)
    assert short.variances.groups[:2] == pytest.approx(long.variances.groups[:2], rel=0.1)


def test_without_rows_the_prior_is_all_there_is() -> None:
    fit = Regression(np.zeros((0, 12)), GROUPS, 0.0).fit(np.zeros(0), PRIOR, 5)
    assert not fit.mean.any()
    assert fit.covariance == pytest.approx(np.diag(np.repeat(fit.variances.groups, [4, 6, 2])))


def test_degrees_of_freedom_lost_before_count_for_the_noise() -> None:
    design, values, _ = data(60)
    whole = Regression(design, GROUPS, 60.0)
    noise = [whole.fit(values, PRIOR, 50, lost=lost).variances.noise for lost in (0.0, 20.0)]
    assert noise[1] > 1.3 * noise[0]


def test_less_of_the_noise_passes_for_effects_once_most_groups_are_believed_to_have_none() -> None:
    groups = [slice(start, start + 4) for start in range(0, 120, 4)]
    prior = Variances(np.full(30, 0.03**2), 0.1**2)
    every, likely = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        design = rng.standard_normal((40, 120)) / 2.0
        weights = np.repeat(rng.random(30) < 0.3, 4) * 0.03 * rng.standard_normal(120)
        values = design @ weights + 0.1 * rng.standard_normal(40)
        fit = Regression(design, groups, 40.0, [0.7] * 30).fit(values, prior, 5)
        every.append(fit.slabs.noise / 0.1**2)
        likely.append(fit.variances.noise / 0.1**2)
    assert np.mean(every) < 0.93 * np.mean(likely) < 0.93


def test_the_degrees_of_freedom_of_a_fit_are_those_that_its_hat_matrix_has() -> None:
    design, values, _ = data(30)
    fit = Regression(design, GROUPS, 30.0, [0.7] * 3).fit(values, PRIOR, 10)
    each = fit.variances.groups[np.repeat([0, 1, 2], [4, 6, 2])]
    scaled = design * each
    rows = scaled @ design.T
    hat = rows @ np.linalg.inv(rows + fit.variances.noise * np.eye(30))
    assert fit.degrees == pytest.approx(np.trace(hat))
