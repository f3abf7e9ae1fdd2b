"""Verdicts on a certificate from fresh blocks."""

from __future__ import annotations

import math

import pytest

from tuner.apply.verify_verdict import verified
from tuner.states import VerifyOutcome

CERTIFIED = 0.95


def around(mean: float, spread: float, blocks: int = 6) -> list[float]:
    """Log ratios at ``mean`` plus and minus ``spread``, alternating."""
    return [mean + (spread if n % 2 else -spread) for n in range(blocks)]


@pytest.mark.parametrize(
    ("mean", "spread", "outcome"),
    [
        (-0.10, 0.01, VerifyOutcome.HOLDS),
        (-0.02, 0.005, VerifyOutcome.HOLDS),
        (0.0, 0.01, VerifyOutcome.NO_LONGER_HOLDS),
        (0.20, 0.01, VerifyOutcome.NO_LONGER_HOLDS),
        (-0.05, 0.10, VerifyOutcome.NOT_SETTLED),
        (0.0, 0.10, VerifyOutcome.NOT_SETTLED),
    ],
)
def test_outcomes(mean: float, spread: float, outcome: VerifyOutcome) -> None:
    result = verified(around(mean, spread), CERTIFIED)
    assert result.outcome is outcome
    assert result.ratio == pytest.approx(math.exp(mean))
    assert result.lower < result.ratio < result.upper


def test_the_interval_is_student_s() -> None:
    result = verified([0.01, 0.02, 0.03], CERTIFIED)
    reach = 4.302652729911275 * 0.01 / math.sqrt(3)
    assert result.upper == pytest.approx(math.exp(0.02 + reach))
    assert result.lower == pytest.approx(math.exp(0.02 - reach))


def test_less_than_certified_is_reported() -> None:
    assert "less than what was certified" in verified(around(-0.02, 0.005), CERTIFIED).reason
    assert "less than what was certified" not in verified(around(-0.1, 0.005), CERTIFIED).reason


@pytest.mark.parametrize("mean", [-0.10, 0.0, 0.20])
def test_other_settings_than_those_certified_against_allow_no_verdict(mean: float) -> None:
    result = verified(around(mean, 0.01), CERTIFIED, ("a.one", "a.two"))
    assert result.outcome is VerifyOutcome.CANNOT_BE_JUDGED
    assert result.ratio == pytest.approx(math.exp(mean))
    assert result.reason.endswith("not those it was certified against: a.one, a.two differ.")


def test_too_few_blocks_are_no_verification() -> None:
    with pytest.raises(ValueError, match="too few"):
        verified([0.1, 0.2], CERTIFIED)
