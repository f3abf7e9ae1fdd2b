"""The probability that an effect exists: against exact evidence, and what it leaves to promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy

from tests.unit.propose.spaces import tunables
from tuner.model import Configuration
from tuner.propose import regression
from tuner.propose.candidates import Candidates
from tuner.propose.effects import EffectsModel, Evidence
from tuner.propose.encoding import Encoding, Floats
from tuner.propose.inclusion import bayes_factors, inclusion, shared
from tuner.propose.regression import Regression, Variances

SLAB, NOISE = 0.05**2, 0.1**2


def posterior(design: Floats, values: Floats, variance: float) -> tuple[Floats, Floats]:
    """Posterior mean and covariance of the weights, all with this prior variance."""
    information = design.T @ design / NOISE + np.eye(design.shape[1]) / variance
    covariance = np.asarray(np.linalg.inv(information), np.float64)
    return covariance @ design.T @ values / NOISE, covariance


@pytest.mark.parametrize("effect", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("variance", [SLAB, SLAB / 10.0])
def test_it_is_the_ratio_of_the_exact_evidence(effect: float, variance: float) -> None:
    rng = np.random.default_rng(1)
    design = rng.standard_normal((20, 3))
    values = design @ np.full(3, effect) + 0.1 * rng.standard_normal(20)
    mean, covariance = posterior(design, values, variance)
    own, slab = np.array([variance]), np.array([SLAB])
    factors = bayes_factors(mean[None], covariance[None], own, slab)
    probability = inclusion(np.array([0.3]), factors)
    without = NOISE * np.eye(20)
    with_, none = (
        scipy.stats.multivariate_normal.pdf(values, cov=cov)
        for cov in (without + SLAB * design @ design.T, without)
    )
    exact = 0.3 * with_ / (0.3 * with_ + 0.7 * none)
    assert probability == pytest.approx([exact], rel=1e-6)


def test_without_measurements_it_is_that_of_the_prior() -> None:
    prior, slabs = SLAB * np.stack([np.eye(3)] * 2), np.full(2, SLAB)
    factors = bayes_factors(np.zeros((2, 3)), prior, slabs, slabs)
    assert factors == pytest.approx([0.0, 0.0])
    assert inclusion(np.full(2, 0.3), factors) == pytest.approx([0.3, 0.3])


def test_what_other_outputs_say_is_the_exact_posterior_of_all_their_patterns() -> None:
    """By enumeration: a parameter matters or not, and then on each output by a toss of a coin."""
    factors = np.log([[30.0, 0.2, 1.0], [0.5, 0.1, 1.0], [2.0, 0.3, 1.0]])
    joint = {True: np.zeros(3), False: np.zeros(3)}
    for matters, here, *elsewhere in product((False, True), repeat=4):
        if not matters and (here or any(elsewhere)):
            continue
        prior = 0.3 * 0.5**3 if matters else 0.7
        evidence = [
            f if effect else 0.0 * f for f, effect in zip(factors[1:], elsewhere, strict=True)
        ]
        joint[here] += prior * np.exp(sum(evidence) + (factors[0] if here else 0.0))
    exact = joint[True] / (joint[True] + joint[False])
    probability = inclusion(shared(np.full(3, 0.3), [*factors[1:]]), factors[0])
    assert probability == pytest.approx(exact)


def test_an_effect_on_one_output_is_sooner_believed_if_another_has_one() -> None:
    rng = np.random.default_rng(2)
    design = rng.standard_normal((40, 8))
    effect = design[:, :4].sum(axis=1)
    values = np.outer(effect, [0.2, 0.03]) + 0.1 * rng.standard_normal((40, 2))
    whole = Regression(design, [slice(0, 4), slice(4, 8)], 40.0, [0.7, 0.7])
    prior = Variances(np.full(2, 0.05**2), NOISE)
    other = whole.fit(values[:, 0], prior, 5)
    alone = whole.fit(values[:, 1], prior, 5)
    together = whole.fit(values[:, 1], prior, 5, others=[other.factors])
    chance = [fit.variances.groups / fit.slabs.groups for fit in (alone, together)]
    assert chance[1][0] > chance[0][0]
    assert chance[1][1] < chance[0][1]


@pytest.mark.parametrize("rows", [5, 60])
def test_both_forms_of_a_regression_agree_for_groups_of_unequal_size(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(rows)
    design = rng.standard_normal((rows, 12))
    values = design[:, 4:10] @ np.full(6, 0.1) + 0.03 * rng.standard_normal(rows)
    groups = [slice(0, 4), slice(4, 10), slice(10, 12)]
    fits = []
    for few in (0.0, 1e9):
        monkeypatch.setattr(regression, "_FEW_ROWS", few)
        whole = Regression(design, groups, rows, [0.0, 0.7, 0.7])
        fits.append(whole.fit(values, Variances(np.full(3, 0.02**2), 0.03**2), 20))
    by_weights, by_rows = fits
    assert by_rows.variances.groups == pytest.approx(by_weights.variances.groups, rel=1e-6)
    assert by_rows.mean == pytest.approx(by_weights.mean, rel=1e-6, abs=1e-12)
    assert by_rows.covariance == pytest.approx(by_weights.covariance, rel=1e-6, abs=1e-12)
    always, effect, nothing = by_rows.variances.groups / by_rows.slabs.groups
    assert always == 1.0
    if rows == 60:
        assert nothing < 0.9 < 0.99 < effect


def test_a_fit_goes_on_where_an_earlier_one_with_the_first_groups_ended() -> None:
    rng = np.random.default_rng(4)
    design = rng.standard_normal((60, 12))
    values = design[:, :4] @ np.full(4, 0.1) + 0.03 * rng.standard_normal(60)
    groups = [slice(0, 4), slice(4, 10), slice(10, 12)]
    prior = Variances(np.full(3, 0.02**2), 0.03**2)
    first = Regression(design[:, :10], groups[:2], 60.0, [0.7, 0.7])
    whole = Regression(design, groups, 60.0, [0.7, 0.7, 0.7])
    short = first.fit(values, Variances(prior.groups[:2], prior.noise), 30)
    for _ in range(2):
        short = whole.fit(values, prior, 1, short)
    long = whole.fit(values, prior, 100)
    assert short.variances.groups == pytest.approx(long.variances.groups, rel=0.05)
    assert short.mean == pytest.approx(long.mean, abs=1e-4)


def test_groups_that_only_together_have_an_effect_share_it() -> None:
    """Neither is needed if the other exists, but one of them is."""
    rng = np.random.default_rng(3)
    column = rng.standard_normal((50, 1))
    values = column[:, 0] * 0.1 + 0.1 * rng.standard_normal(50)
    groups = [slice(0, 1), slice(1, 2)]
    twice = Regression(np.hstack([column, column]), groups, 50.0, [0.7, 0.7])
    fit = twice.fit(values, Variances(np.full(2, 0.05**2), NOISE), 10)
    assert fit.mean[0] == pytest.approx(fit.mean[1])
    assert fit.mean.sum() == pytest.approx(0.1, abs=0.03)


def _promise(seed: int, sparse: bool) -> float:
    """Return the gain expected of the best of many configurations although nothing has an effect,
    after 8 blocks of the baseline and 5 others.
    """
    parts, rng = tunables(), np.random.default_rng(seed)
    all_ = list(dict.fromkeys(Candidates(parts, f"{seed}").random(400)))
    encoding, some = Encoding(parts, Configuration()), all_[:40]
    arms = [(n, n // 5) for n in range(40)] + [(-1, block) for block in range(8)]
    evidence = Evidence(
        np.array([n for n, _ in arms]),
        np.array([block for _, block in arms]),
        0.05 * rng.standard_normal((len(arms), 1)),
    )
    features = encoding.features(some)
    model = EffectsModel(encoding, features, evidence, [0.05**2], sparse=sparse)
    mean, _ = model.outputs[0].predict(model.design(encoding.features(all_)))
    return float(-mean.min())


def test_nothing_to_find_promises_little() -> None:
    believing, doubting = (
        np.mean([_promise(seed, sparse) for seed in range(8)]) for sparse in (False, True)
    )
    assert doubting < 0.8 * believing
