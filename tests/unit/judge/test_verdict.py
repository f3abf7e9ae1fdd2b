"""Verdicts: outcomes, their precedence, and the displayed sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.confidence import Interval
from tuner.judge.verdict import Outcome, assess, describe
from tuner.judge.words import at_least, interval

SLOWER = (0.031, 0.012, 0.027, 0.044, 0.019, 0.035)
TIGHT = (0.001, -0.002, 0.003, -0.001, 0.0005, 0.001, 0.002)


def test_worse_with_ville() -> None:
    v = assess(SLOWER, delta=0.02, alpha=0.025)
    assert v.outcome is Outcome.WORSE
    assert v.threshold == 40.0
    assert v.e_value == pytest.approx(56.2314, rel=1e-5)
    assert v.interval.lower == pytest.approx(0.00225, abs=5e-6)
    assert v.estimate == pytest.approx(0.028)
    assert v.ratio == pytest.approx(math.exp(0.028))
    assert v.n == 6
    assert v.reason == "2.8% slower than baseline (95% interval 0.2 to 5.5%) after 6 blocks"


def test_better_with_calibrated_threshold() -> None:
    v = assess([-d for d in SLOWER], delta=0.02, max_n=30, reference="trial 7")
    assert v.outcome is Outcome.BETTER
    assert v.threshold == 16.37
    assert v.reason == "2.8% faster than trial 7 (95% interval 0.8 to 5.0%) after 6 blocks"


def test_worse_by_delta_comes_before_worse() -> None:
    v = assess([d + 0.03 for d in SLOWER], delta=0.02, max_n=30)
    assert v.outcome is Outcome.WORSE_BY_DELTA


def test_equivalent_comes_before_better() -> None:
    v = assess([d * 0.1 - 0.005 for d in TIGHT], delta=0.02, max_n=30)
    assert v.interval.upper < 0.0
    assert v.outcome is Outcome.EQUIVALENT
    assert v.reason.startswith("within 2.0% of baseline: 0.5% faster than baseline")


def test_undecided_says_both_directions() -> None:
    v = assess([0.1, -0.08, 0.05, -0.12, 0.02], delta=0.02, max_n=30)
    assert v.outcome is Outcome.UNDECIDED
    assert v.reason.startswith("no difference from baseline shown yet: 0.6% faster")
    assert "% slower to" in v.reason


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_early(n: int) -> None:
    v = assess([-0.5] * n, delta=0.02, max_n=10)
    assert v.outcome is Outcome.UNDECIDED
    assert v.interval == Interval(-math.inf, math.inf)
    noun = "block" if n == 1 else "blocks"
    assert v.reason == f"too early to judge: {n} {noun} measured, 3 needed"


def test_past_the_horizon_ville_applies() -> None:
    assert assess(SLOWER, delta=0.02, max_n=5).threshold == 40.0
    assert assess(SLOWER, delta=0.02, max_n=6).threshold == 11.47


@pytest.mark.slow
@given(
    st.lists(st.floats(-0.3, 0.3), min_size=3, max_size=20),
    st.sampled_from([0.01, 0.025, 0.05, 0.1]),
)
def test_outcome_and_interval_agree(x: list[float], alpha: float) -> None:
    v = assess(x, delta=0.02, alpha=alpha, max_n=20)
    limit, near = math.log(1.02), 1e-9
    lower, upper = v.interval.lower, v.interval.upper
    if v.outcome is Outcome.WORSE_BY_DELTA:
        assert lower > limit - near
    elif v.outcome is Outcome.EQUIVALENT:
        assert -limit - near < lower <= upper < limit + near
    elif v.outcome is Outcome.BETTER:
        assert upper < near
    elif v.outcome is Outcome.WORSE:
        assert lower > -near
    else:
        assert lower < near
        assert upper > -near
    mirrored = assess([-d for d in x], delta=0.02, alpha=alpha, max_n=20)
    assert mirrored.interval.lower == pytest.approx(-upper)


def test_percentages_are_symmetric_and_bounded() -> None:
    faster = describe(
        -math.log(1.05), Interval(-0.1, -0.01), 6, confidence=0.95, reference="baseline"
    )
    assert faster.startswith("5.0% faster than baseline (95% interval 1.0 to 10.5%)")
    wide = describe(9.0, Interval(-9.0, 27.0), 3, confidence=0.95, reference="baseline")
    assert wide.startswith("over 1000% slower than baseline (95% interval over 1000% slower to ")


@pytest.mark.parametrize(
    ("estimate", "lower", "upper", "words"),
    [
        (-1.0, -math.inf, math.inf, "still unbounded"),
        (-1.0, -9.0, 0.1, "10.5% slower to over 1000% faster"),
        (-3.0, -9.0, -0.1, "10.5% to over 1000%"),
        (-9.0, -9.5, -8.5, "over 1000%"),
        (9.0, 8.5, 9.5, "over 1000%"),
        (-1.0, -1.1, -0.1, "10.5 to 200%"),
    ],
)
def test_only_an_interval_without_a_bound_is_unbounded(
    estimate: float, lower: float, upper: float, words: str
) -> None:
    assert interval(estimate, lower, upper, 0.97) == f"97% interval {words}"


def test_a_bound_of_over_a_thousand_percent_is_a_number() -> None:
    assert at_least(math.log(1.05)) == at_least(-math.log(1.05)) == "at least 5.0%"
    assert at_least(5.0) == "at least 1000%"


@pytest.mark.slow
def test_error_of_a_single_look_and_of_many() -> None:
    """1,500 null series, looks at 4, 7 and 10: wrong in less than .05; standard error .0056."""
    rng = np.random.default_rng(4)
    wrong = 0
    for x in rng.normal(0.0, 0.05, (1500, 10)):
        looks = (assess(x[:n], delta=0.3, max_n=10, alpha=0.025).outcome for n in (4, 7, 10))
        wrong += any(o in (Outcome.BETTER, Outcome.WORSE) for o in looks)
    assert wrong / 1500 < 0.05


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="index 1"):
        assess([0.1, math.nan, 0.2], delta=0.02)
    with pytest.raises(ValueError, match="margin"):
        assess(SLOWER, delta=0.0)
    with pytest.raises(ValueError, match="alpha"):
        assess(SLOWER, delta=0.02, alpha=0.0)
    with pytest.raises(ValueError, match="one axis"):
        assess(np.zeros((2, 2)), delta=0.02)
