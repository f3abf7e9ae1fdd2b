"""Group-sequential boundaries against published tables, and their error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.judge.group_sequential import (
    Spending,
    exit_probabilities,
    lan_demets,
    obrien_fleming,
    t_boundaries,
)

FIFTHS = np.arange(1, 6) / 5


@pytest.mark.parametrize(
    ("alpha", "constants"),
    [
        (0.01, {1: 2.576, 2: 2.580, 3: 2.595, 4: 2.609, 5: 2.621, 10: 2.660, 20: 2.695}),
        (0.05, {1: 1.960, 2: 1.977, 3: 2.004, 4: 2.024, 5: 2.040, 10: 2.087, 20: 2.126}),
        (0.10, {1: 1.645, 2: 1.678, 3: 1.710, 4: 1.733, 5: 1.751, 10: 1.801, 20: 1.842}),
    ],
)
def test_obrien_fleming_constants(alpha: float, constants: dict[int, float]) -> None:
    """Jennison and Turnbull (2000), table 2.3: C_B(K, alpha), two-sided."""
    for looks, constant in constants.items():
        found = obrien_fleming(looks, alpha, two_sided=True)
        assert found[-1] == pytest.approx(constant, abs=0.0006)
        assert found == pytest.approx(found[-1] * np.sqrt(looks / np.arange(1, looks + 1)))


@pytest.mark.parametrize(
    ("spending", "boundaries"),
    [
        (Spending.OBRIEN_FLEMING, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        (Spending.POCOCK, [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_lan_demets_boundaries(spending: Spending, boundaries: list[float]) -> None:
    """Reboussin, DeMets, Kim and Lan (2000): five equal looks, two-sided .05.

    The last digit of the Pocock-type boundaries depends on whether crossing to the other side
    counts as stopping.
    """
    assert lan_demets(FIFTHS, 0.05, spending, two_sided=True) == pytest.approx(boundaries, abs=2e-4)
    assert lan_demets(FIFTHS, 0.025, spending) == pytest.approx(boundaries, abs=2e-4)


@pytest.mark.parametrize(("looks", "constant"), [(2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413)])
def test_pocock_constants_spend_alpha(looks: int, constant: float) -> None:
    """Pocock (1977): one boundary for all looks, two-sided .05, to three decimals."""
    times = np.arange(1, looks + 1) / looks
    exits = exit_probabilities([constant] * looks, times, two_sided=True)
    assert float(exits.sum()) == pytest.approx(0.05, abs=1e-4)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8),
    st.floats(0.001, 0.2),
    st.sampled_from(Spending),
)
def test_any_looks_spend_what_their_function_allows(
    steps: list[float], alpha: float, spending: Spending
) -> None:
    times = np.cumsum(steps) / sum(steps)
    times[-1] = 1.0
    exits = exit_probabilities(lan_demets(times, alpha, spending), times)
    allowed = [spending.spent(alpha, float(t)) for t in times]
    assert np.cumsum(exits) == pytest.approx(allowed, abs=1e-9)
    assert allowed[-1] == pytest.approx(alpha)


def test_one_look_is_a_fixed_test() -> None:
    assert obrien_fleming(1, 0.05) == pytest.approx([stats.norm.isf(0.05)])
    assert lan_demets([1.0], 0.05) == pytest.approx([stats.norm.isf(0.05)])
    power = exit_probabilities([1.645], [1.0], drift=2.0)
    assert power == pytest.approx([stats.norm.sf(1.645 - 2.0)])
    both = exit_probabilities([1.96], [1.0], two_sided=True, drift=2.0)
    assert both == pytest.approx([stats.norm.sf(-0.04) + stats.norm.cdf(-3.96)])


def test_a_look_at_which_nothing_may_be_spent_is_never_crossed() -> None:
    found = lan_demets([0.001, 1.0], 0.05)
    assert found[0] > 30.0
    assert found[1] == pytest.approx(stats.norm.isf(0.05), abs=1e-6)


def test_error_and_power_of_t_statistics() -> None:
    """20,000 paths of 30 looked at from 3 on: error .05, power .84 at half a deviation.

    The power is that of an effect of 1% at sd(D) = 1.98%, where the e-value test has .63. Three
    standard errors are .005 and .008; the carry-over to t statistics adds up to .004 to the error.
    """
    pairs = np.arange(1, 31)
    limits = t_boundaries(obrien_fleming(30, 0.05), np.maximum(pairs, 2))[2:]
    noise = np.random.default_rng(0).standard_normal((20_000, 30))
    for effect, share, tolerance in ((0.0, 0.05, 0.009), (1 / 1.98, 0.84, 0.012)):
        x = noise + effect
        mean = np.cumsum(x, axis=1) / pairs
        squares = np.cumsum(x**2, axis=1) - pairs * mean**2
        t = mean[:, 2:] / np.sqrt(squares[:, 2:] / (pairs[2:] - 1) / pairs[2:])
        assert float((t >= limits).any(axis=1).mean()) == pytest.approx(share, abs=tolerance)


def test_t_boundaries_keep_the_tail() -> None:
    found = t_boundaries([2.0, 2.0], [5, 500])
    assert stats.t.sf(found[0], 4) == pytest.approx(stats.norm.sf(2.0))
    assert found[1] == pytest.approx(2.0, abs=0.01)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="alpha"):
        obrien_fleming(5, 0.5)
    with pytest.raises(ValueError, match="looks"):
        obrien_fleming(0, 0.05)
    for fractions in ([], [0.5, 0.5], [0.0, 1.0], [0.5, 1.1], [math.nan]):
        with pytest.raises(ValueError, match="fractions"):
            lan_demets(fractions, 0.05)
    with pytest.raises(ValueError, match="a boundary for each look"):
        exit_probabilities([2.0], [0.5, 1.0])
    with pytest.raises(ValueError, match="above 0"):
        exit_probabilities([0.0], [1.0])
    with pytest.raises(ValueError, match="number of pairs"):
        t_boundaries([2.0], [3, 4])
    with pytest.raises(ValueError, match="at least 2"):
        t_boundaries([2.0], [1])
