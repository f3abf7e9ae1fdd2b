"""The sign-flip test: exactness over all signs, its bound, its values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.robust import STAKES, fewest_pairs, sign_flip_e_value, sign_flip_e_values

sizes = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=7)


@given(sizes)
def test_mean_over_all_signs_is_one(x: list[float]) -> None:
    """Exact under fair signs, whatever the magnitudes: the definition of a fair bet."""
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=len(x))))
    assert sign_flip_e_values(signs * np.array(x))[:, -1].mean() == pytest.approx(1.0)


@given(sizes)
def test_never_above_two_to_the_n(x: list[float]) -> None:
    assert np.all(sign_flip_e_values(x) <= 2.0 ** np.arange(1, len(x) + 1))


def test_formula() -> None:
    x = (0.03, -0.01, 0.02)
    direct = 0.0
    for stake in STAKES:
        product = 1.0
        for i in range(3):
            rms = math.sqrt(sum(v * v for v in x[: i + 1]) / (i + 1))
            product *= 1.0 + math.tanh(stake * x[i] / rms)
        direct += product / len(STAKES)
    assert sign_flip_e_value(x) == pytest.approx(direct)


def test_clear_effect_is_found_and_its_reverse_is_not() -> None:
    x = np.full(12, 0.1)
    assert sign_flip_e_value(x) > 200.0
    assert sign_flip_e_value(-x) < 0.1


def test_zeros_and_nothing_are_no_evidence() -> None:
    assert sign_flip_e_value([0.0] * 5) == pytest.approx(1.0)
    assert sign_flip_e_value([]) == 1.0


def test_heavy_tails_keep_the_error() -> None:
    """4,000 paths of symmetric Cauchy: P(ever E >= 20) <= .05; standard error .0034 at .05."""
    x = np.random.default_rng(8).standard_cauchy((4000, 25))
    assert 0.002 < float((sign_flip_e_values(x) >= 20.0).any(axis=1).mean()) < 0.05


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="index 1"):
        sign_flip_e_values([0.1, math.nan])
    with pytest.raises(ValueError, match="one axis"):
        sign_flip_e_value(np.zeros((2, 2)))


def test_the_fewest_pairs_reach_the_level_and_one_less_does_not() -> None:
    for alpha in (0.9, 0.5, 0.025, 0.015, 0.0024, 1e-6):
        fewest = fewest_pairs(alpha)
        values = sign_flip_e_values([0.1] * fewest)
        assert values[-1] >= 1.0 / alpha
        assert (values[:-1] < 1.0 / alpha).all()
    assert fewest_pairs(0.025) == 7
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="alpha"):
            fewest_pairs(wrong)
