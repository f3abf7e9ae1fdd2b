"""Intervals: worked examples, duality with the test, edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.confidence import Interval, bounds, confidence_interval, critical_t
from tuner.judge.evalue import e_value, running_moments

WORKED = (0.031, 0.012, 0.027, 0.044, 0.019, 0.035)
samples = st.lists(st.integers(-1000, 1000).map(lambda v: v / 1000), min_size=3, max_size=20)


def test_worked_example() -> None:
    interval = confidence_interval(WORKED, alpha=0.05)
    assert interval.lower == pytest.approx(0.00225, abs=5e-6)
    assert interval.upper == pytest.approx(0.05375, abs=5e-6)


@pytest.mark.slow
@given(samples, st.floats(0.005, 0.95), st.floats(-0.5, 0.5))
def test_excludes_exactly_what_the_test_rejects(x: list[float], alpha: float, mean: float) -> None:
    interval = confidence_interval(x, alpha=alpha)
    threshold = 2.0 / alpha
    above = e_value([v - mean for v in x])
    below = e_value([mean - v for v in x])
    near = 1e-9 * (1.0 + abs(mean))
    if abs(mean - interval.lower) > near:
        assert (above >= threshold) == (mean < interval.lower)
    if abs(mean - interval.upper) > near:
        assert (below >= threshold) == (mean > interval.upper)


@pytest.mark.parametrize("n", [3, 6, 30, 500])
@pytest.mark.parametrize("threshold", [1.01, 8.11, 40.0, 1e5])
def test_critical_t_is_where_e_reaches_the_threshold(n: int, threshold: float) -> None:
    t = critical_t(n, threshold)
    if math.isinf(t):
        assert n == 3
        assert e_value([1.0] * n) < threshold
        return
    # Half the sample one unit above, half below: mean 0, known spread.
    x = np.array([1.0, -1.0] * (n // 2) + [0.0] * (n % 2))
    x = x / np.std(x, ddof=1)
    assert e_value(x + t / math.sqrt(n)) == pytest.approx(threshold, rel=1e-6)


@pytest.mark.parametrize("x", [(), (0.1,), (0.1, 0.1), (0.1, 0.1, 0.1001)])
def test_unbounded_before_the_data_can_reject(x: tuple[float, ...]) -> None:
    interval = confidence_interval(x, alpha=0.4 if len(x) < 3 else 2e-6)
    assert interval == Interval(-math.inf, math.inf)


def test_equal_differences_give_a_point() -> None:
    point = confidence_interval([0.25] * 5, alpha=0.05)
    assert point.lower == pytest.approx(0.25)
    assert point.upper == pytest.approx(0.25)


def test_intervals_cover_the_mean_at_every_look() -> None:
    """2,000 paths of 20: some 90% interval of a path misses in at most .1; standard error .007."""
    x = np.random.default_rng(3).normal(0.2, 1.0, (2000, 20))
    lower, upper = bounds(running_moments(x), 2.0 / 0.1)
    missed = ((lower > 0.2) | (upper < 0.2)).any(axis=1).mean()
    assert 0.005 < missed < 0.1


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="alpha"):
        confidence_interval(WORKED, alpha=1.0)
    with pytest.raises(ValueError, match="above 1"):
        critical_t(5, 1.0)
    with pytest.raises(ValueError, match="index 3"):
        confidence_interval([0.1, 0.2, 0.3, math.nan], alpha=0.1)
    with pytest.raises(ValueError, match="lower <= upper"):
        Interval(1.0, 0.0)
