"""Scores and differences: geometric means, margins, invalid arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.score import (
    checked_weights,
    component_differences,
    log_scores,
    margin,
    score_differences,
)

times = st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=1, max_size=6)


def test_score_is_the_weighted_log_geometric_mean() -> None:
    assert log_scores([2.0, 8.0], (0.5, 0.5)) == pytest.approx(math.log(4.0))
    assert log_scores([[1.0, 8.0], [2.0, 1.0]], (0.25, 0.75)) == pytest.approx(
        [0.75 * math.log(8.0), 0.25 * math.log(2.0)]
    )


def test_differences_pair_by_block_and_slower_is_positive() -> None:
    candidate, reference = [[1.1, 2.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]
    assert component_differences(candidate, reference) == pytest.approx(
        np.array([[math.log(1.1), 0.0], [-math.log(2.0), 0.0]])
    )
    assert score_differences(candidate, reference, (0.5, 0.5)) == pytest.approx(
        [math.log(1.1) / 2, -math.log(2.0) / 2]
    )


@given(times, st.floats(0.1, 10.0))
def test_unit_of_a_component_does_not_matter(t: list[tuple[float, float]], unit: float) -> None:
    other = [(b, a) for a, b in t]
    plain = score_differences(t, other, (0.3, 0.7))
    scaled = score_differences(np.array(t) * [unit, 1.0], np.array(other) * [unit, 1.0], (0.3, 0.7))
    assert scaled == pytest.approx(plain, abs=1e-9)


def test_a_margin_is_in_log_units() -> None:
    assert margin(0.02) == pytest.approx(math.log(1.02))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_time_is_named(bad: float) -> None:
    with pytest.raises(ValueError, match=r"\(1, 0\)"):
        component_differences([[1.0, 1.0], [bad, 1.0]], [[1.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((0.5, 0.6), "sum to 1"),
        ((1.5, -0.5), "negative"),
        ((1.0,), "need 2"),
        ((math.nan, 1.0), "finite"),
    ],
)
def test_bad_weights(weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 2)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="paired times"):
        component_differences([[1.0]], [[1.0], [1.0]])
    with pytest.raises(ValueError, match="single number"):
        log_scores(np.float64(1.0), (1.0,))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="margin"):
        margin(0.0)
