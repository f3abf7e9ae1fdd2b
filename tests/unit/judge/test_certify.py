"""Certification: what is claimed, what is refused, and how often the claim is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify
from tuner.judge.verdict import Outcome, change

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
    found = judge(fresh(12, (-0.1, -0.1, -0.1), 0.03))
    assert found.outcome is CertificateOutcome.CERTIFIED
    assert found.verdict.outcome is Outcome.BETTER
    assert all(c.holds and not c.broken for c in found.components)
    assert 0.05 < found.least_improvement < math.exp(0.1) - 1 < found.largest_compatible_improvement
    assert found.least_improvement == pytest.approx(math.exp(-found.verdict.interval.upper) - 1)
    assert found.reason.startswith(f"certified: {change(found.verdict.estimate)} than baseline (95")
    assert f"at least {100 * found.least_improvement:.1f} %" in found.reason


def test_a_gain_does_not_buy_a_loss() -> None:
    found = judge(fresh(12, (-0.3, -0.3, 0.2), 0.03))
    assert found.verdict.outcome is Outcome.BETTER
    assert found.outcome is CertificateOutcome.NOT_CERTIFIED
    assert [c.broken for c in found.components] == [False, False, True]
    assert found.reason.startswith("not certified: component 3 is 2")


def test_a_component_of_weight_zero_is_guarded_too() -> None:
    blocks = fresh(12, (-0.3, 0.2), 0.03)
    found = certify(blocks, (1.0, 0.0), floor=0.05, max_n=30)
    assert found.outcome is CertificateOutcome.NOT_CERTIFIED
    assert found.components[1].broken


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
    assert "component 3 not shown to keep the floor of 5.0 %" in still.reason
    assert judge(blocks, max_n=8).outcome is CertificateOutcome.NOT_CERTIFIED


def test_slower_is_refused_at_once() -> None:
    found = judge(fresh(8, (0.04, 0.04, 0.04), 0.01))
    assert found.outcome is CertificateOutcome.NOT_CERTIFIED
    assert found.verdict.outcome is Outcome.WORSE
    assert found.largest_compatible_improvement < 0.0


def test_no_improvement_is_a_statement() -> None:
    blocks = fresh(20, (0.0, 0.0, 0.0), 0.03)
    found = judge(blocks, max_n=20)
    assert found.outcome is CertificateOutcome.NOT_CERTIFIED
    assert found.verdict.outcome is Outcome.UNDECIDED
    assert 0.0 < found.largest_compatible_improvement < 0.05
    largest = 100 * found.largest_compatible_improvement
    assert f"an improvement of more than {largest:.1f} % is ruled out" in found.reason
    assert found.reason.startswith("not certified after the 20 blocks allowed: ")


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_early(n: int) -> None:
    found = judge(fresh(n, (-1.0, -1.0, -1.0), 0.001))
    assert found.outcome is CertificateOutcome.UNDECIDED
    assert found.largest_compatible_improvement == math.inf
    assert found.least_improvement == -1.0
    assert not any(c.holds or c.broken for c in found.components)
    assert "too early to judge" in found.reason


def test_horizon_chooses_the_threshold() -> None:
    blocks = fresh(12, (-0.1, -0.1, -0.1), 0.03)
    assert judge(blocks, max_n=12).verdict.threshold == 14.66
    assert judge(blocks, max_n=None).verdict.threshold == 40.0
    assert judge(blocks, max_n=10).verdict.threshold == 40.0


def test_clock_resolution_counts() -> None:
    blocks = [PairedTimes((0.1,), (0.2,))] * 4
    sharp = certify(blocks, (1.0,), floor=0.05, max_n=10)
    blunt = certify(blocks, (1.0,), floor=0.05, max_n=10, resolution_s=0.1)
    assert sharp.outcome is CertificateOutcome.CERTIFIED
    assert blunt.outcome is CertificateOutcome.UNDECIDED


@pytest.mark.parametrize(
    "effects",
    [(0.0, 0.0, 0.0), (-0.4, -0.4, math.log(1.05))],
    ids=["no gain", "a component at its floor"],
)
def test_wrong_certificates_are_rare(effects: tuple[float, ...]) -> None:
    """300 finalists at the edge of the null, four looks each: wrong in at most .025.

    The standard deviation of the share at .025 is .009; the bound is three of them above.
    """
    wrong = 0
    for seed in range(300):
        blocks = fresh(10, effects, 0.02, seed=seed)
        looks = (judge(blocks[:n], max_n=10).outcome for n in (4, 6, 8, 10))
        wrong += any(outcome is CertificateOutcome.CERTIFIED for outcome in looks)
    assert wrong / 300 < 0.025 + 3 * 0.009


def test_power() -> None:
    """A finalist 10 % faster in every component at sd(D_c) = 7 % is mostly certified in 20."""
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
