"""Thresholds: the table, values between its columns, and the simulation behind it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.judge.simulation import SimulatedThreshold, simulate_thresholds
from tuner.judge.evalue import e_values
from tuner.judge.thresholds import ALPHAS, CALIBRATED, threshold

OFF_THE_COLUMNS = (0.19, 0.12, 0.09, 0.0304, 0.0076, 0.0019, 0.0009, 1e-5)


@cache
def simulations(max_n: int) -> dict[float, SimulatedThreshold]:
    """Return a simulated threshold for each level of the tests, all from the same paths."""
    alphas = (*ALPHAS, *OFF_THE_COLUMNS, 0.3)
    return dict(zip(alphas, simulate_thresholds(alphas, max_n, paths=15_000, seed=7), strict=True))


def test_table() -> None:
    assert threshold(0.05, 30) == 8.11
    assert threshold(0.01, 10) == 27.7
    assert threshold(0.025, 50) == 18.33
    assert threshold(0.1, 20) == 3.59
    assert threshold(0.001, 30) == 318.0
    assert threshold(0.2, 10) == 1.441
    assert threshold(0.0125, 30) == 32.4


def test_the_horizon_is_rounded_up_and_ville_applies_beyond_the_last() -> None:
    assert threshold(0.05, 3) == threshold(0.05, 10)
    assert threshold(0.05, 11) == threshold(0.05, 20)
    assert threshold(0.05, 31) == threshold(0.05, 50)
    assert threshold(0.05, 51) == 20.0
    assert threshold(0.05) == 20.0
    # Above .2 the threshold would fall below 1, where an e-value is evidence for the null.
    assert threshold(0.3, 10) == 1.441
    assert simulations(10)[0.3].value < 1.0
    assert threshold(0.8, 10) == 1.25


@pytest.mark.slow
@given(
    st.floats(1e-6, 0.5),
    st.floats(1.0, 3.0),
    st.sampled_from([None, 5, 15, 25, 45]),
)
def test_stricter_alpha_never_lowers_it(alpha: float, ratio: float, max_n: int | None) -> None:
    high, low = threshold(alpha / ratio, max_n), threshold(alpha, max_n)
    assert high >= low * (1.0 - 1e-12)
    assert 1.0 < low <= 1.0 / alpha


@pytest.mark.slow
@pytest.mark.parametrize("max_n", [10, 30])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_simulation_reproduces_the_table(alpha: float, max_n: int) -> None:
    """Within four combined standard errors of the simulation and of the table's 10^6 null paths."""
    simulation = simulations(max_n)[alpha]
    table = CALIBRATED[max_n][ALPHAS.index(alpha)]
    table_error = table / math.sqrt(1e6 * alpha)
    assert simulation.standard_error < 0.02 * simulation.value
    assert abs(simulation.value - table) < 4.0 * math.hypot(simulation.standard_error, table_error)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", OFF_THE_COLUMNS)
def test_off_the_columns_the_error_stays_below_alpha(alpha: float) -> None:
    simulation = simulations(30)[alpha]
    assert threshold(alpha, 30) > simulation.value - 2.0 * simulation.standard_error
    assert threshold(alpha, 30) < 1.3 * simulation.value


@pytest.mark.slow
def test_plain_null_paths_agree_with_the_simulation() -> None:
    """30,000 null paths of 10: P(ever E >= 5.83) = .05 within four sd of .0013."""
    x = np.random.default_rng(2).standard_normal((30_000, 10))
    crossed = float((e_values(x)[:, 2:] >= threshold(0.05, 10)).any(axis=1).mean())
    assert crossed == pytest.approx(0.05, abs=4 * 0.0013)


def test_the_simulation_is_determined_by_its_seed() -> None:
    one, two = (simulate_thresholds([0.05], 10, paths=2000, seed=5) for _ in range(2))
    assert one == two
    assert one != simulate_thresholds([0.05], 10, paths=2000, seed=6)


def test_the_levels_of_one_simulation_do_not_influence_each_other() -> None:
    alphas = (0.05, 1e-5, 0.3)
    together = simulate_thresholds(alphas, 10, paths=2000, seed=5)
    alone = [simulate_thresholds([alpha], 10, paths=2000, seed=5)[0] for alpha in alphas]
    for one, other in zip(together, alone, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-6)


@pytest.mark.parametrize(("alpha", "max_n"), [(0.0, 10), (1.0, 10), (0.05, 2)])
def test_bad_arguments(alpha: float, max_n: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        threshold(alpha, max_n)
