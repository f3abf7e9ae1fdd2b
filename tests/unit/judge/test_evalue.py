"""The e-value against worked examples, its invariances, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.evalue import (
    SCALES,
    e_value,
    e_values,
    log_e_from_moments,
    moments,
    running_moments,
)

WORKED = (0.031, 0.012, 0.027, 0.044, 0.019, 0.035)

values = st.floats(-1.0, 1.0).filter(lambda v: v == 0.0 or abs(v) > 1e-6)
samples = st.lists(values, min_size=2, max_size=25)


def test_worked_example() -> None:
    m = running_moments(WORKED)
    t = m.mean[-1] * math.sqrt(6) / math.sqrt(m.variance[-1])
    assert t == pytest.approx(6.00613, abs=5e-6)
    expected = [1.0, 1.71434, 4.55612, 7.90801, 16.6180, 56.2314]
    assert e_values(WORKED) == pytest.approx(expected, rel=5e-6)
    assert e_value(WORKED) == pytest.approx(56.2314, rel=5e-6)


@pytest.mark.parametrize("t", [-3.0, -0.5, 0.0, 0.7, 2.0, 6.0])
@pytest.mark.parametrize("n", [2, 5, 20])
def test_closed_form_is_the_mixture_integral(n: int, t: float) -> None:
    """E is the noncentral-t density ratio, integrated over a half-normal effect."""
    scale = 4.0

    def weighted(effect: float) -> float:
        prior = 2.0 * scipy.stats.norm.pdf(effect, scale=math.sqrt(scale))
        return float(prior * scipy.stats.nct.pdf(t, n - 1, effect * math.sqrt(n)))

    integral, _ = scipy.integrate.quad(weighted, 0.0, 16.0, limit=400)
    closed = log_e_from_moments(
        np.asarray(n), np.asarray(t / math.sqrt(n)), np.asarray(1.0), (scale,)
    )
    assert math.exp(float(closed)) == pytest.approx(
        integral / scipy.stats.t.pdf(t, n - 1), rel=1e-4
    )


@pytest.mark.slow
@given(samples, st.floats(1e-6, 1e6))
def test_scale_does_not_matter(x: list[float], factor: float) -> None:
    assert e_values([v * factor for v in x]) == pytest.approx(e_values(x), rel=1e-6)


@given(st.integers(2, 60), st.floats(-50.0, 50.0), st.floats(0.0, 10.0))
def test_grows_with_t(n: int, t: float, more: float) -> None:
    pairs, unit = np.asarray([n, n]), np.asarray([1.0, 1.0])
    low, high = log_e_from_moments(pairs, np.asarray([t, t + more]) / math.sqrt(n), unit)
    assert high >= low - 1e-9


@pytest.mark.slow
@given(samples, st.data())
def test_last_value_ignores_order(x: list[float], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(x))
    assert e_value(shuffled) == pytest.approx(e_value(x), rel=1e-6)


@pytest.mark.slow
@given(st.tuples(values, values))
def test_two_pairs_never_convince(x: tuple[float, float]) -> None:
    """Two equal differences give the strongest evidence possible with two: E_2 <= 10.15."""
    bound = sum(
        2 * math.sqrt(1 + 2 * g) * scipy.stats.t.cdf(2 * math.sqrt(g), 2) for g in SCALES
    ) / len(SCALES)
    assert e_value(x) <= bound * (1 + 1e-9)
    assert e_value((0.1, 0.1)) == pytest.approx(bound)


def test_equal_readings_are_finite_evidence() -> None:
    assert math.isfinite(e_value([0.001] * 6))
    assert e_value([0.001] * 6) > 1e4
    assert e_value([0.0] * 6) < 1.0


def test_long_and_clear_series_stay_finite() -> None:
    x = np.full(3000, 0.05) + np.tile([1e-9, -1e-9], 1500)
    assert np.all(np.isfinite(e_values(x)))
    assert e_value(-x) == 0.0


def test_rows_are_independent_series() -> None:
    rows = np.array([WORKED, [-v for v in WORKED]])
    both = e_values(rows)
    assert both.shape == (2, 6)
    assert both[0] == pytest.approx(e_values(WORKED))
    assert both[1] == pytest.approx(e_values(rows[1]))


def test_masked_moments_leave_blocks_out() -> None:
    x = np.array([[0.1, math.nan, 0.3, 0.2], [math.nan] * 4])
    m = moments(x)
    assert m.n.tolist() == [3, 0]
    assert m.mean == pytest.approx([0.2, 0.0])
    assert m.variance == pytest.approx([0.01, 0.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_non_finite_difference_is_named(bad: float) -> None:
    with pytest.raises(ValueError, match="index 2"):
        e_values([0.1, 0.2, bad, 0.1])
    with pytest.raises(ValueError, match=r"index \(1, 0\)"):
        e_values(np.array([[0.1, 0.2], [bad, 0.1]]))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="scales"):
        log_e_from_moments(np.asarray(3), np.asarray(0.1), np.asarray(1.0), ())
    with pytest.raises(ValueError, match="one axis"):
        e_value(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="sequence"):
        e_values(np.float64(1.0))  # type: ignore[arg-type]


def test_empty_and_single() -> None:
    assert e_value([]) == 1.0
    assert e_value([0.5]) == 1.0
    assert e_values([]).shape == (0,)


@pytest.mark.slow
def test_ville_holds_under_the_null() -> None:
    """20,000 null paths: P(ever E >= 20) <= .05; standard error .0012."""
    x = np.random.default_rng(11).standard_normal((20_000, 20))
    crossed = float((e_values(x)[:, 2:] >= 20.0).any(axis=1).mean())
    assert 0.005 < crossed < 0.05 / 2
