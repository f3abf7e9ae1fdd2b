"""Adjustment: coefficients are recovered, used if they help, and otherwise refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.judge.disturbed_arms import OTHERS, STOLEN, World
from tuner.judge.adjustment import (
    PRIORS,
    DifferenceAdjustment,
    fit_adjustment,
    no_adjustment,
    raw_alpha,
)
from tuner.judge.observations import Observations
from tuner.model import COVARIATES

ONE = [1.0]
#: Seeds whose covariates pass the influence test, as six of seven do.
SOUND = (0, 2, 3)


def with_covariates(observations: Observations, covariates: np.ndarray) -> Observations:
    return Observations(observations.trial, observations.block, observations.logs, covariates)


@pytest.mark.parametrize("seed", SOUND)
def test_the_true_coefficient_is_recovered(seed: int) -> None:
    many = World(blocks=60, theft=0.05, stolen=1.5)
    adjustment = fit_adjustment(many.observations(seed), ONE, seed=seed)
    assert adjustment.score.used
    assert not adjustment.refusals
    assert adjustment.score.coefficients[OTHERS] == pytest.approx(0.33, abs=0.08)
    assert adjustment.score.coefficients[STOLEN] == pytest.approx(1.5, abs=0.6)
    assert adjustment.score.variance_with < 0.7 * adjustment.score.variance_without
    assert "less variance on blocks left out" in adjustment.score.reason


def test_the_variance_is_that_of_a_difference_around_its_trial() -> None:
    adjustment = fit_adjustment(World(blocks=200).observations(3), ONE)
    noise, total = 2.0 * 0.085**2, 2.0 * 0.085**2 + 2.0 * (0.33 * 0.3) ** 2
    assert adjustment.score.variance_with == pytest.approx(noise, rel=0.1)
    assert adjustment.score.variance_without == pytest.approx(total, rel=0.15)


def test_levels_of_trials_and_blocks_do_not_affect_the_fit() -> None:
    """A trial that is slower in every block and always disturbed more gives no information."""
    observations = World().observations(1)
    shifts = (
        observations.covariates + 5.0 * observations.trial[:, None] + observations.block[:, None]
    )
    plain, shifted = (
        fit_adjustment(o, ONE, seed=1)
        for o in (observations, with_covariates(observations, shifts))
    )
    assert plain.score.used
    assert shifted.refusals.keys() >= {"others_server"}
    assert not shifted.score.used


@pytest.mark.slow
def test_a_covariate_that_explains_nothing_is_seldom_used() -> None:
    """40 campaigns: below 4 in 100 expected by chance."""
    adjustments = [fit_adjustment(World(others=0.0).observations(seed), ONE) for seed in range(40)]
    assert sum(one.score.used for one in adjustments) <= 4
    assert "times its variance" in adjustments[0].score.reason


def test_others_cannot_make_a_run_faster() -> None:
    adjustment = fit_adjustment(World(others=-0.5, blocks=40).observations(1), ONE)
    assert not adjustment.score.used


def test_coefficients_are_bounded() -> None:
    adjustment = fit_adjustment(World(others=9.0, blocks=40).observations(1), ONE)
    assert adjustment.score.coefficients[OTHERS] == PRIORS["others"].bound


@pytest.mark.slow
def test_few_blocks_lean_on_the_prior() -> None:
    """If the data hardly constrain the coefficient, it stays near .33."""
    fits = [
        fit_adjustment(World(blocks=6, noise=0.3, others=0.6, busy=0.5).observations(s), ONE).score
        for s in range(40)
    ]
    used = [one.coefficients[OTHERS] for one in fits if one.used]
    assert used
    assert 0.3 < float(np.mean(used)) < 0.6


def test_each_component_has_its_own_adjustment() -> None:
    observations = World(blocks=40, components=2).observations(2)
    others = np.nan_to_num(observations.covariates[:, OTHERS])
    observations.logs[:, 1] -= 0.33 * others  # others do not slow the second component
    adjustment = fit_adjustment(observations, [0.5, 0.5], components=("read", "write"))
    read, write = adjustment.components
    assert read.coefficients[OTHERS] == pytest.approx(0.33, abs=0.1)
    assert not write.used
    assert write.reason.startswith("no adjustment: the write would have ")
    assert adjustment.score.coefficients[OTHERS] == pytest.approx(0.165, abs=0.08)
    writes, reads = observations.logs[:, 1], observations.logs[:, 0]
    assert np.array_equal(write.adjusted(writes, observations.covariates), writes)
    assert read.adjusted(reads, observations.covariates) == pytest.approx(
        reads - read.coefficients[OTHERS] * others
    )
    scores = observations.logs.mean(axis=1)
    assert adjustment.score.adjusted(scores, observations.covariates) == pytest.approx(
        scores - adjustment.score.coefficients[OTHERS] * others
    )


@pytest.mark.parametrize("finalist", [None, 1])
def test_a_covariate_that_the_configuration_influences_is_refused(finalist: int | None) -> None:
    adjustment = fit_adjustment(World(influence=0.8).observations(1), ONE, finalist=finalist)
    assert not adjustment.score.used
    refusal = adjustment.refusals["others_server"]
    assert refusal.startswith(
        "processor time used by others on the server's machine depends on the"
    )
    assert refusal in adjustment.score.reason


@pytest.mark.parametrize(
    ("finalist", "blocks", "used"),
    [(None, 12, True), (1, 8, True), (1, 7, False), (2, 12, False), (99, 12, False)],
)
def test_a_finalist_with_too_few_blocks_of_the_search_gets_no_adjustment(
    finalist: int | None, blocks: int, used: bool
) -> None:
    """Whether other load depends on it could not be tested. Trial 2 has four blocks."""
    quiet = World(blocks=blocks, noise=0.02)
    adjustment = fit_adjustment(quiet.observations(3), ONE, finalist=finalist, seed=3)
    assert adjustment.score.used == used
    assert ("in fewer than 8 blocks, too few to test" in adjustment.score.reason) != used


def test_refusing_one_covariate_keeps_the_other() -> None:
    world = World(blocks=60, influence=0.8, theft=0.05, stolen=3.0, noise=0.03, others=0.0)
    adjustment = fit_adjustment(world.observations(1), ONE, finalist=1)
    assert set(adjustment.refusals) == {"others_server"}
    assert adjustment.score.coefficients[OTHERS] == 0.0
    assert adjustment.score.coefficients[STOLEN] == pytest.approx(3.0, abs=0.5)


def test_without_counters_there_is_no_adjustment() -> None:
    observations = World().observations(1)
    bare = with_covariates(observations, np.full_like(observations.covariates, np.nan))
    none = bare.only(np.zeros(len(bare.trial), dtype=np.bool_))
    for one in (bare, none):
        adjustment = fit_adjustment(one, ONE)
        assert not adjustment.score.used
        assert adjustment.score.reason == (
            "no adjustment: other load on the machines was not recorded"
        )
        assert math.isnan(adjustment.score.variance_with)


def test_few_blocks_and_quiet_machines_give_no_adjustment() -> None:
    few = fit_adjustment(World(blocks=4).observations(1), ONE)
    message = "4 blocks are too few to estimate the cost of other load"
    assert few.score.reason == f"no adjustment: {message}"
    quiet = fit_adjustment(World(busy=0.001).observations(1), ONE)
    assert quiet.score.reason.endswith("other load did not differ between arms")


def test_equal_readings_are_no_noise_to_explain() -> None:
    observations = replace(World().observations(1), logs=np.zeros((36, 1)))
    assert "no noise to explain" in fit_adjustment(observations, ONE).score.reason


def test_a_pair_without_the_covariate_stays_unchanged() -> None:
    coefficients = tuple(0.5 if name.startswith("others") else 0.0 for name in COVARIATES)
    adjustment = DifferenceAdjustment(coefficients, 2.0, 1.0, "")
    covariates = np.full((2, len(COVARIATES)), np.nan)
    covariates[0, OTHERS] = 0.2
    assert adjustment.adjusted(np.array([0.1, 0.1]), covariates).tolist() == pytest.approx(
        [0.0, 0.1]
    )


@pytest.mark.slow
def test_long_campaigns_are_fitted_on_their_newest_blocks() -> None:
    observations = World(blocks=450).observations(1)
    old = observations.block < 50
    spoiled = observations.covariates.copy()
    spoiled[old] = np.random.default_rng(1).exponential(9.0, spoiled[old].shape)
    assert fit_adjustment(with_covariates(observations, spoiled), ONE) == fit_adjustment(
        observations, ONE
    )
    assert fit_adjustment(observations, ONE).blocks == 400


def test_no_adjustment_changes_nothing() -> None:
    none = no_adjustment(2, "switched off")
    differences = np.array([0.1, 0.3])
    for one in (none.score, *none.components):
        same = one.adjusted(differences, np.full((2, len(COVARIATES)), 0.7))
        assert np.array_equal(same, differences)


def test_levels_of_the_raw_differences() -> None:
    assert raw_alpha(0.0125) == 0.1
    assert raw_alpha(0.025) == raw_alpha(0.1) == raw_alpha(0.2) == 0.2
    assert raw_alpha(0.3) == 0.3
