"""Holm's step-down: a worked example and properties for any p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.holm import holm

p_values = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


def test_worked_example() -> None:
    """Ascending .005, .01, .03, .04 times 4, 3, 2, 1, never decreasing."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.slow
@given(p_values)
def test_between_the_p_value_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    assert np.all(adjusted >= np.array(p))
    assert np.all(adjusted <= np.minimum(1.0, len(p) * np.array(p)))
    assert np.all(np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0.0)


@pytest.mark.slow
@given(p_values, st.floats(0.001, 0.5))
def test_rejects_what_the_step_down_rejects(p: list[float], alpha: float) -> None:
    """By definition: starting from the smallest, until one is above alpha / (number left)."""
    rejected = 0
    for left, value in zip(range(len(p), 0, -1), sorted(p), strict=True):
        if value * left > alpha:
            break
        rejected += 1
    assert int((holm(p) <= alpha).sum()) == rejected


@pytest.mark.slow
@given(p_values, st.data())
def test_order_does_not_matter(p: list[float], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(p))))
    assert holm([p[i] for i in order]) == pytest.approx([holm(p)[i] for i in order])


def test_no_p_values() -> None:
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_bad_arguments(bad: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, bad])
    with pytest.raises(ValueError, match="one axis"):
        holm(np.zeros((2, 2)))
