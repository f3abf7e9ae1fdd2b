"""Certification: which claims are made or refused, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.judge.certify import (
    Certificate,
    CertificateOutcome,
    PairedTimes,
    certify,
    certify_several,
)
from tuner.judge.robust import sign_flip_e_value
from tuner.judge.score import log_scores
from tuner.judge.thresholds import threshold
from tuner.judge.verdict import Outcome
from tuner.judge.words import change

WEIGHTS = (0.5, 0.3, 0.2)


def fresh(n: int, effects: tuple[float, ...], sd: float, *, seed: int = 0) -> list[PairedTimes]:
    rng = np.random.default_rng(seed)
    return [
        PairedTimes(
            candidate_s=tuple(np.exp(rng.normal(effects, sd)).tolist()),
            baseline_s=tuple(np.exp(rng.normal(0.0, sd, len(effects))).tolist()),
        )
        for _ in range(n)
    ]


def judge(blocks: list[PairedTimes], max_n: int | None = 30) -> Certificate:
    return certify(blocks, WEIGHTS, floor=0.05, max_n=max_n)


def test_certified() -> None:
    certificate = judge(fresh(12, (-0.1, -0.1, -0.1), 0.03))
    assert certificate.outcome is CertificateOutcome.CERTIFIED
    assert certificate.verdict.outcome is Outcome.BETTER
    assert all(c.holds and not c.broken for c in certificate.components)
    assert (
        0.05
        < certificate.least_improvement
        < math.exp(0.1) - 1
        < certificate.largest_compatible_improvement
    )
    assert certificate.least_improvement == pytest.approx(
        math.exp(-certificate.verdict.interval.upper) - 1
    )
    assert certificate.reason.startswith(
        f"certified: {change(certificate.verdict.estimate)} than baseline (95"
    )
    assert f"at least {100 * certificate.least_improvement:.1f}%" in certificate.reason


def test_a_gain_does_not_buy_a_loss() -> None:
    certificate = judge(fresh(12, (-0.3, -0.3, 0.2), 0.03))
    assert certificate.verdict.outcome is Outcome.BETTER
    assert certificate.outcome is CertificateOutcome.NOT_CERTIFIED
    assert [c.broken for c in certificate.components] == [False, False, True]
    assert certificate.reason.startswith("not certified: component 3 is 2")


def test_a_component_of_weight_zero_is_guarded_too() -> None:
    blocks = fresh(12, (-0.3, 0.2), 0.03)
    certificate = certify(blocks, (1.0, 0.0), floor=0.05, max_n=30)
    assert certificate.outcome is CertificateOutcome.NOT_CERTIFIED
    assert certificate.components[1].broken


def test_a_floor_not_yet_shown_keeps_the_claim_open() -> None:
    rng = np.random.default_rng(5)
    blocks = [
        PairedTimes(
            tuple(np.exp(rng.normal((-0.3, -0.3, 0.0), (0.02, 0.02, 0.15))).tolist()),
            tuple(np.exp(rng.normal(0.0, (0.02, 0.02, 0.15))).tolist()),
        )
        for _ in range(8)
    ]
    still = judge(blocks)
    assert still.outcome is CertificateOutcome.UNDECIDED
    assert still.verdict.outcome is Outcome.BETTER
    assert [c.holds for c in still.components] == [True, True, False]
    assert "component 3 not shown to keep the floor of 5.0%" in still.reason
    assert judge(blocks, max_n=8).outcome is CertificateOutcome.NOT_CERTIFIED


def test_components_are_called_by_their_names() -> None:
    names = ("read", "write", "delete")
    blocks = fresh(12, (-0.3, -0.3, 0.2), 0.03)
    certificate = certify(blocks, WEIGHTS, floor=0.05, max_n=30, components=names)
    assert [c.name for c in certificate.components] == list(names)
    assert certificate.reason.startswith("not certified: delete is 2")
    assert [c.name for c in judge(blocks).components] == [f"component {i}" for i in (1, 2, 3)]
    unsteady = [
        PairedTimes((0.5 + 0.01 * i, 1.0 + swing, 1.0 - swing), (1.0, 1.0, 1.0))
        for i, swing in enumerate((0.2, -0.2, 0.2, -0.2, 0.2, -0.2))
    ]
    still = certify(unsteady, (0.9, 0.05, 0.05), floor=0.05, max_n=30, components=names)
    assert still.reason.endswith("; write, delete not shown to keep the floor of 5.0%")
    with pytest.raises(ValueError, match="component names"):
        certify(blocks, WEIGHTS, floor=0.05, components=("read",))


def test_slower_is_refused_at_once() -> None:
    certificate = judge(fresh(8, (0.04, 0.04, 0.04), 0.01))
    assert certificate.outcome is CertificateOutcome.NOT_CERTIFIED
    assert certificate.verdict.outcome is Outcome.WORSE
    assert certificate.largest_compatible_improvement < 0.0


def test_no_improvement_is_a_statement() -> None:
    blocks = fresh(20, (0.0, 0.0, 0.0), 0.03)
    certificate = judge(blocks, max_n=20)
    assert certificate.outcome is CertificateOutcome.NOT_CERTIFIED
    assert certificate.verdict.outcome is Outcome.UNDECIDED
    assert 0.0 < certificate.largest_compatible_improvement < 0.05
    largest = 100 * certificate.largest_compatible_improvement
    assert f"an improvement of more than {largest:.1f}% is ruled out" in certificate.reason
    assert certificate.reason.startswith("not certified after the 20 blocks allowed: ")


def loose(n: int, loss: float, *, seed: int, floor_alpha: float | None) -> Certificate:
    """A clear gain in two components; the third is noisy, with this true loss."""
    rng = np.random.default_rng(seed)
    spread = (0.02, 0.02, 0.06)
    blocks = [
        PairedTimes(
            tuple(np.exp(rng.normal((-0.3, -0.3, loss), spread)).tolist()),
            tuple(np.exp(rng.normal(0.0, spread)).tolist()),
        )
        for _ in range(n)
    ]
    return certify(blocks, WEIGHTS, floor=0.05, max_n=20, floor_alpha=floor_alpha)


@pytest.mark.slow
def test_floors_may_be_shown_at_more_error_than_the_gain() -> None:
    strict, bounded = (
        [loose(10, 0.0, seed=seed, floor_alpha=alpha) for seed in range(40)]
        for alpha in (None, 0.2)
    )
    counts = [
        sum(c.outcome is CertificateOutcome.CERTIFIED for c in certificates)
        for certificates in (strict, bounded)
    ]
    assert counts[1] > counts[0] + 5
    for one, other in zip(strict, bounded, strict=True):
        assert one.verdict == other.verdict
        assert [c.holds for c in one.components] == [c.holds for c in other.components]
        assert all(c.passes == c.holds for c in one.components)
        assert all(c.passes or not c.holds for c in other.components)


def test_a_floor_that_is_not_settled_is_reported() -> None:
    certificates = (loose(10, 0.0, seed=seed, floor_alpha=0.2) for seed in range(40))
    open_ = next(
        c
        for c in certificates
        if c.outcome is CertificateOutcome.CERTIFIED and not all(p.holds for p in c.components)
    )
    assert "no component is shown to break its floor of 5.0%; not settled: " in open_.reason
    assert "component 3 (up to " in open_.reason


def test_a_broken_floor_rules_a_finalist_out_at_any_floor_alpha() -> None:
    certificate = loose(20, 0.3, seed=1, floor_alpha=0.5)
    assert certificate.components[2].broken
    assert certificate.outcome is CertificateOutcome.NOT_CERTIFIED


@pytest.mark.slow
def test_a_component_at_its_floor_passes_no_more_often_than_its_error() -> None:
    """300 finalists, four looks each: at most .2 plus three standard errors (.023 each)."""
    wrong = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        logs = rng.normal((-0.4, math.log(1.05)), 0.03, (10, 2))
        blocks = [PairedTimes(tuple(np.exp(row).tolist()), (1.0, 1.0)) for row in logs]
        looks = (
            certify(blocks[:n], (0.5, 0.5), floor=0.05, max_n=10, floor_alpha=0.2).outcome
            for n in (4, 6, 8, 10)
        )
        wrong += CertificateOutcome.CERTIFIED in looks
    assert 0 < wrong / 300 < 0.2 + 3 * 0.023


def test_robust_requires_the_sign_flip_test_too() -> None:
    blocks = fresh(12, (-0.1, -0.1, -0.1), 0.02)
    d = log_scores([b.candidate_s for b in blocks], WEIGHTS) - log_scores(
        [b.baseline_s for b in blocks], WEIGHTS
    )

    def robust(n: int, max_n: int = 30) -> Certificate:
        return certify(blocks[:n], WEIGHTS, floor=0.05, max_n=max_n, robust=True)

    assert judge(blocks[:5]).outcome is CertificateOutcome.CERTIFIED
    assert robust(5).outcome is CertificateOutcome.UNDECIDED
    e_value = f"{sign_flip_e_value(-d[:5]):.3g}"
    assert f"not confirmed by the sign-flip test (e-value {e_value} of 40)" in robust(5).reason
    assert robust(5, max_n=5).outcome is CertificateOutcome.NOT_CERTIFIED
    assert robust(12).outcome is CertificateOutcome.CERTIFIED
    assert sign_flip_e_value(-d[:12]) > 40.0
    assert robust(12).reason == judge(blocks).reason


@pytest.mark.slow
def test_robust_keeps_the_error_for_skewed_differences() -> None:
    """300 finalists no faster on average, with occasional slow runs: far more than .025 wrong.

    With the sign-flip test as well, and five looks: at most .025 plus three deviations.
    """
    plain = robust = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        d = 0.1 * (rng.exponential(size=25) - 1.0)
        blocks = [PairedTimes((float(t),), (1.0,)) for t in np.exp(d)]
        looks = [blocks[:n] for n in (5, 8, 12, 18, 25)]
        for ask in (False, True):
            outcomes = [
                certify(look, (1.0,), floor=0.5, max_n=25, robust=ask).outcome for look in looks
            ]
            certified = CertificateOutcome.CERTIFIED in outcomes
            plain, robust = plain + (certified and not ask), robust + (certified and ask)
    assert plain / 300 > 0.06
    assert robust / 300 < 0.025 + 3 * 0.009


def test_several_finalists_share_the_error() -> None:
    """Holm: the clear one at alpha / 3, then the next at alpha / 2, then the last at alpha."""
    clear, plain, none = (
        fresh(9, (gain,) * 3, 0.03, seed=seed) for seed, gain in ((1, -0.3), (2, -0.09), (3, 0.0))
    )
    certificates = certify_several(
        {4: none, 7: clear, 9: plain}, WEIGHTS, floor=0.05, max_n=10, components=("a", "b", "c")
    )
    assert list(certificates) == [4, 7, 9]
    assert certificates[7].outcome is CertificateOutcome.CERTIFIED
    assert certificates[7].verdict.threshold == threshold(0.025 / 3, 10)
    alone = certify(clear, WEIGHTS, floor=0.05, alpha=0.025 / 3, max_n=10, components=tuple("abc"))
    assert certificates[7] == alone
    assert certificates[4].outcome is not CertificateOutcome.CERTIFIED
    left = 1 + (certificates[9].outcome is not CertificateOutcome.CERTIFIED)
    assert certificates[4].verdict.threshold == threshold(0.025 / left, 10)
    single = certify_several({2: plain}, WEIGHTS, floor=0.05, max_n=10)
    assert single == {2: certify(plain, WEIGHTS, floor=0.05, max_n=10)}
    assert certify_several({}, WEIGHTS, floor=0.05) == {}


def test_one_finalist_profits_from_the_certificate_of_another() -> None:
    """A finalist first judged at alpha / 2 is certified at alpha once a clear one is certified."""
    clear = fresh(10, (-0.5,) * 3, 0.02)
    half, whole = threshold(0.0125, 30), threshold(0.025, 30)
    close = next(
        blocks[:n]
        for blocks in (fresh(30, (-0.05,) * 3, 0.03, seed=seed) for seed in range(20))
        for n in range(3, 31)
        if whole <= certify(blocks[:n], WEIGHTS, floor=0.2, max_n=30).verdict.e_value < half
    )
    beside = certify_several({1: clear, 2: close}, WEIGHTS, floor=0.2, max_n=30)
    twice = certify_several({1: close, 2: close}, WEIGHTS, floor=0.2, max_n=30)
    assert beside[2].outcome is CertificateOutcome.CERTIFIED
    assert {c.outcome for c in twice.values()} == {CertificateOutcome.UNDECIDED}


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_early(n: int) -> None:
    certificate = judge(fresh(n, (-1.0, -1.0, -1.0), 0.001))
    assert certificate.outcome is CertificateOutcome.UNDECIDED
    assert certificate.largest_compatible_improvement == math.inf
    assert certificate.least_improvement == -1.0
    assert not any(c.holds or c.broken for c in certificate.components)
    assert "too early to judge" in certificate.reason


def test_the_horizon_determines_the_threshold() -> None:
    blocks = fresh(12, (-0.1, -0.1, -0.1), 0.03)
    assert judge(blocks, max_n=12).verdict.threshold == 14.66
    assert judge(blocks, max_n=None).verdict.threshold == 40.0
    assert judge(blocks, max_n=10).verdict.threshold == 40.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "effects",
    [(0.0, 0.0, 0.0), (-0.4, -0.4, math.log(1.05))],
    ids=["no gain", "a component at its floor"],
)
def test_wrong_certificates_are_rare(effects: tuple[float, ...]) -> None:
    """300 finalists at the edge of the null, four looks each: wrong in at most .025.

    The standard deviation of the share at .025 is .009; the bound is three of these above it.
    """
    wrong = 0
    for seed in range(300):
        blocks = fresh(10, effects, 0.02, seed=seed)
        looks = (judge(blocks[:n], max_n=10).outcome for n in (4, 6, 8, 10))
        wrong += any(outcome is CertificateOutcome.CERTIFIED for outcome in looks)
    assert wrong / 300 < 0.025 + 3 * 0.009


@pytest.mark.slow
def test_power() -> None:
    """A finalist 10% faster in every component at sd(D_c) = 7% is mostly certified in 20 blocks."""
    certified = sum(
        judge(fresh(20, (-0.1,) * 3, 0.05, seed=seed)).outcome is CertificateOutcome.CERTIFIED
        for seed in range(60)
    )
    assert certified > 50


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="block 1: need 3 component times, got 2"):
        judge([*fresh(1, (0.0,) * 3, 0.1), PairedTimes((1.0, 1.0), (1.0, 1.0, 1.0))])
    with pytest.raises(ValueError, match="above 0 s"):
        judge([PairedTimes((1.0, 0.0, 1.0), (1.0, 1.0, 1.0))])
    with pytest.raises(ValueError, match="margin"):
        certify([], WEIGHTS, floor=0.0)
    with pytest.raises(ValueError, match="sum to 1"):
        certify([], (0.5, 0.6), floor=0.05)
    with pytest.raises(ValueError, match="alpha"):
        certify([], WEIGHTS, floor=0.05, alpha=2.0)
