"""Lag-1 autocorrelation of arms: formulas against matrices and simulations, and invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.evalue import Floats
from tuner.judge.serial import SerialCorrelation, _of, _of_one, lag_one
from tuner.judge.series import Series


def correlation(d: Floats) -> SerialCorrelation:
    """Return the correlation of differences (candidates, blocks), NaN if missing."""
    result = lag_one(Series.of(d))
    assert result is not None
    return result


def races(
    rng: np.random.Generator, rho: float = 0.0, noise: tuple[float, ...] = (1.0,) * 4
) -> Floats:
    """Draw four races of three candidates that last 10, 7 and 4 blocks; noise: of the arms."""
    table = np.full((12, 40), math.nan)
    for race in range(4):
        arms = rng.standard_normal((4, 10))
        for block in range(1, 10):
            fresh = math.sqrt(1.0 - rho * rho) * arms[:, block]
            arms[:, block] = rho * arms[:, block - 1] + fresh
        arms *= np.array(noise)[:, None]
        for row, end in enumerate((10, 7, 4)):
            table[3 * race + row, 10 * race : 10 * race + end] = (arms[row + 1] - arms[0])[:end]
    return table


def test_the_moments_are_those_of_the_matrices() -> None:
    """One race with a gap, by full matrices: M by its generalised inverse, A by hand."""
    d = races(np.random.default_rng(2))[:3, :10]
    d[0, 3] = math.nan
    there = np.vstack([np.ones(10, dtype=np.bool_), ~np.isnan(d)])
    arm, block = np.nonzero(there)
    levels = np.hstack([arm[:, None] == np.arange(4), block[:, None] == np.arange(10)]).astype(
        float
    )
    left_over = np.eye(len(arm)) - levels @ np.linalg.pinv(levels)
    follows = np.abs(block[:, None] - block) == 1
    a = 0.5 * ((arm[:, None] == arm) & follows)
    r = left_over @ np.vstack([np.zeros(10), np.where(np.isnan(d), 0.0, d)])[there]
    df, ma = np.trace(left_over), left_over @ a
    information = np.trace(ma @ ma) - np.trace(ma) ** 2 / df
    statistic = (r @ a @ r) / (r @ r) - np.trace(ma) / df
    alike = 2.0 * information / (df * (df + 2.0))
    products = [
        sum(r[i] * r[j] * a[i, j] for i in block_i for j in block_j) * 2.0
        for block_i, block_j in (
            (np.flatnonzero(block == n), np.flatnonzero(block == n + 1)) for n in range(9)
        )
    ]
    scattered = 9 * float(np.var(products, ddof=1)) / (r @ r) ** 2
    slope = 2.0 * information / df
    actual = correlation(d)
    assert actual.value == pytest.approx(statistic / slope)
    assert actual.error == pytest.approx(math.sqrt(max(alike, scattered)) / slope)
    assert actual.z == pytest.approx(actual.value / actual.error)


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "within"), [(0.0, 0.02), (0.3, 0.04), (-0.3, 0.04)])
def test_it_estimates_the_autocorrelation(rho: float, within: float) -> None:
    rng = np.random.default_rng(1)
    values = [correlation(races(rng, rho)).value for _ in range(500)]
    assert np.mean(values) == pytest.approx(rho, abs=within)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [(1.0,) * 4, (4.0, 1.0, 1.0, 1.0), (1.0, 4.0, 1.0, 1.0)])
def test_unequal_noise_is_little_dependence(noise: tuple[float, ...]) -> None:
    """Of 600: 9 and .8% exceed the levels of 10 and 1% if arms are alike, 14 and 2.2% if one is
    four times as noisy; the bounds are three deviations above the latter.
    """
    rng = np.random.default_rng(1)
    z = np.array([correlation(races(rng, 0.0, noise)).z for _ in range(600)])
    assert (z >= 1.282).sum() <= 109
    assert (z >= 2.326).sum() <= 24


@pytest.mark.slow
def test_one_noisy_stretch_is_little_dependence() -> None:
    """1.5% of 600 are expected beyond the level of 1%; the bound adds three deviations."""
    rng = np.random.default_rng(1)
    z = []
    for _ in range(600):
        d = races(rng)
        d[:3] *= 4.0
        z.append(correlation(d).z)
    assert (np.array(z) >= 2.326).sum() <= 18


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.floats(-50.0, 50.0), st.floats(0.01, 100.0))
def test_levels_and_unit_do_not_matter(seed: int, level: float, unit: float) -> None:
    rng = np.random.default_rng(seed)
    d = races(rng)
    moved = unit * (d + level * rng.standard_normal((len(d), 1)))
    plain, other = correlation(d), correlation(moved)
    assert other.value == pytest.approx(plain.value, abs=1e-6)
    assert other.z == pytest.approx(plain.z, abs=1e-6)


def test_too_little_data_gives_none() -> None:
    rng = np.random.default_rng(1)
    assert lag_one(Series.of(rng.standard_normal((1, 4)))) is None
    assert lag_one(Series.of(np.empty((0, 5)))) is None
    alternate = np.where(np.arange(12) % 2 == 0, rng.standard_normal(12), math.nan)
    assert lag_one(Series.of(alternate)) is None
    assert lag_one(Series.of(np.full(12, 0.3))) is None


@pytest.mark.slow
@given(
    st.lists(st.none() | st.floats(-3.0, 3.0), min_size=6, max_size=40).filter(
        lambda d: d[0] is not None and sum(x is not None for x in d) > 1
    )
)
def test_a_single_candidate_needs_no_matrices(values: list[float | None]) -> None:
    present = np.array([[x is not None for x in values]])
    d = np.array([[x or 0.0 for x in values]])
    short, whole = _of_one(d, present), _of(d, present)
    assert short.products == pytest.approx(whole.products, abs=1e-9)
    for name in ("squares", "df", "trace", "trace_of_square"):
        assert getattr(short, name) == pytest.approx(getattr(whole, name), abs=1e-9)
