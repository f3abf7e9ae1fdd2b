"""The test for differences between testbeds: its error rate and its power."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from tuner.judge.testbeds import ALPHA, between_testbeds, one_way

NAMES = ("a", "b", "c", "d")


def differences(
    rng: np.random.Generator, trials: int, blocks: int, off: float = 0.0
) -> dict[int, dict[str, list[float]]]:
    """Draw differences of trials that share baseline runs; trial 1 is off on the first testbed."""
    baseline = rng.standard_normal((len(NAMES), blocks))
    by_trial = {}
    for trial in range(1, trials + 1):
        values = (rng.standard_normal((len(NAMES), blocks)) - baseline) / np.sqrt(2.0)
        values[0] += off if trial == 1 else 0.0
        by_trial[trial] = dict(zip(NAMES, values.tolist(), strict=True))
    return by_trial


def test_the_p_value_is_that_of_one_way_analysis_of_variance() -> None:
    rng = np.random.default_rng(5)
    for sizes in ((2, 2), (3, 5, 2), (8, 8, 8, 9)):
        groups = [rng.standard_normal(size) for size in sizes]
        assert one_way(groups) == pytest.approx(
            float(scipy.stats.f_oneway(*groups).pvalue), rel=1e-9
        )


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "blocks"), [(1, 2), (1, 5), (4, 5)])
def test_alike_testbeds_are_seldom_warned_about(trials: int, blocks: int) -> None:
    rng = np.random.default_rng(1)
    effects = [between_testbeds(differences(rng, trials, blocks)) for _ in range(2000)]
    warnings = sum(effect is not None and effect.shown for effect in effects)
    assert warnings <= 2000 * ALPHA + 3.0 * (2000 * ALPHA) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trials", "off", "least"), [(1, 2.0, 0.52), (4, 2.0, 0.30), (4, 3.0, 0.8)]
)
def test_power_is_as_documented(trials: int, off: float, least: float) -> None:
    rng = np.random.default_rng(2)
    effects = [between_testbeds(differences(rng, trials, 5, off)) for _ in range(1000)]
    warnings = [effect for effect in effects if effect is not None and effect.shown]
    assert len(warnings) >= 1000 * least
    assert sum(effect.trial == 1 for effect in warnings) > 0.97 * len(warnings)


def test_reason() -> None:
    odd = {"hall": [0.001, -0.001, 0.0], "cellar": [-0.2, -0.201, -0.199]}
    effect = between_testbeds({3: odd, 2: {"hall": [0.0, 0.1], "cellar": [0.1, 0.0]}})
    assert effect is not None
    assert effect.shown
    assert effect.trial == 3
    assert (
        "different effects of trial 3: 22.1% faster on cellar, 0.0% slower on hall" in effect.reason
    )


def test_too_little_data_gives_none() -> None:
    assert between_testbeds({}) is None
    assert between_testbeds({1: {"a": [0.1, 0.2]}}) is None
    assert between_testbeds({1: {"a": [0.1, 0.2], "b": [0.3]}}) is None


def test_equal_readings() -> None:
    same = np.full(3, 0.1)
    assert one_way([same, same]) == 1.0
    assert one_way([same, same + 0.1]) == 0.0
    with pytest.raises(ValueError, match="finite"):
        one_way([same, np.array([0.1, np.nan])])
    with pytest.raises(ValueError, match="two groups"):
        one_way([same])
