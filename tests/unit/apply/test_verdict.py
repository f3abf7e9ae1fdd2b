"""What fresh blocks say of a certificate."""

from __future__ import annotations

import math

import pytest

from tuner.apply.verdict import VerifyOutcome, verified

CERTIFIED = 0.95


def around(mean: float, spread: float, blocks: int = 6) -> list[float]:
    """Log ratios with this mean, half of them above."""
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
    found = verified(around(mean, spread), CERTIFIED)
    assert found.outcome is outcome
    assert found.ratio == pytest.approx(math.exp(mean))
    assert found.lower < found.ratio < found.upper


def test_the_interval_is_student_s() -> None:
    found = verified([0.01, 0.02, 0.03], CERTIFIED)
    reach = 4.302652729911275 * 0.01 / math.sqrt(3)
    assert found.upper == pytest.approx(math.exp(0.02 + reach))
    assert found.lower == pytest.approx(math.exp(0.02 - reach))


def test_less_than_certified_is_told() -> None:
    assert "less than what was certified" in verified(around(-0.02, 0.005), CERTIFIED).reason
    assert "less than what was certified" not in verified(around(-0.1, 0.005), CERTIFIED).reason


def test_too_few_blocks_are_no_verification() -> None:
    with pytest.raises(ValueError, match="too few"):
        verified([0.1, 0.2], CERTIFIED)
