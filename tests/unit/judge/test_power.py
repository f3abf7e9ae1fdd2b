"""Planning figures against plain simulation and against the documented figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge import power
from tuner.judge.evalue import e_values
from tuner.judge.power import detectable_effect, power_by, predict
from tuner.judge.thresholds import threshold


@pytest.mark.parametrize(
    ("percent", "power", "blocks"),
    [(1.0, 0.63, 20.5), (2.0, 1.0, 9.4), (5.0, 1.0, 4.0), (10.0, 1.0, 3.1), (75.0, 1.0, 3.0)],
)
def test_design_figures(percent: float, power: float, blocks: float) -> None:
    """Blocks and power at sd(D) = 1.98%, one-sided .05, at most 30 blocks."""
    forecast = predict(math.log1p(percent / 100.0) / 0.0198, 30, 0.05)
    assert forecast.power == pytest.approx(power, abs=0.01)
    assert forecast.mean_blocks == pytest.approx(blocks, abs=0.06)


@pytest.mark.parametrize("effect", [0.0, 0.5, 1.0])
def test_against_plain_simulation(effect: float) -> None:
    """4,000 paths of 20: the power within three of its standard errors (.008 at most)."""
    x = np.random.default_rng(12).standard_normal((4000, 20)) + effect
    reached = e_values(x)[:, 2:] >= threshold(0.025, 20)
    blocks = np.where(reached.any(axis=1), 3 + reached.argmax(axis=1), 20)
    forecast = predict(effect, 20, 0.025)
    assert forecast.power == pytest.approx(float(reached.any(axis=1).mean()), abs=3 * 0.008)
    assert forecast.mean_blocks == pytest.approx(float(blocks.mean()), abs=0.35)


@pytest.mark.slow
def test_power_by_each_look_against_plain_simulation() -> None:
    """4,000 paths of 20: every look within four standard errors (.008 at most)."""
    effects = np.array([0.0, 0.5, 1.0, 3.0])
    power = power_by(effects, 15, 20, 0.01)
    assert power.shape == (4, 13)
    x = np.random.default_rng(4).standard_normal((4000, 20))
    for effect, by_look in zip(effects, power, strict=True):
        reached = e_values(x + effect)[:, 2:15] >= threshold(0.01, 20)
        shares = np.maximum.accumulate(reached, axis=1).mean(axis=0)
        assert by_look == pytest.approx(shares, abs=4 * 0.008)


def test_power_by_the_last_look_is_that_of_the_test() -> None:
    effects = np.array([0.2, 0.8, 2.0])
    last = power_by(effects, 20, 20, 0.025)[:, -1]
    assert last.tolist() == [predict(float(effect), 20, 0.025).power for effect in effects]
    by_look = power_by(effects, 20, 20, 0.025)
    assert np.all(np.diff(by_look, axis=1) >= 0.0)
    assert np.all(np.diff(by_look, axis=0) >= 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 20, 50])
def test_detectable_effect_has_its_power(n: int) -> None:
    effect = detectable_effect(n, 0.025)
    assert predict(effect, n, 0.025).power == pytest.approx(0.8, abs=1e-4)
    assert predict(effect * 0.99, n, 0.025).power < 0.8
    assert detectable_effect(n, 0.01) > effect


@pytest.mark.slow
@given(st.floats(0.0, 5.0), st.floats(0.0, 1.0))
def test_larger_effects_are_found_sooner(effect: float, more: float) -> None:
    small, large = predict(effect, 15, 0.025), predict(effect + more, 15, 0.025)
    assert large.power >= small.power
    assert large.mean_blocks <= small.mean_blocks
    assert 3.0 <= large.mean_blocks <= 15.0


@pytest.mark.slow
def test_memory_is_bounded_at_nearly_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = np.linspace(0.0, 3.0, 31)
    whole, smallest = power_by(effects, 20, 20, 0.015), detectable_effect(20, 0.015)
    monkeypatch.setattr(power, "_MOST_KEPT", 72_000)
    power._smallest_effects.cache_clear()
    try:
        assert power._smallest_effects(20, 0.015).size <= 72_000
        assert power_by(effects, 20, 20, 0.015) == pytest.approx(whole, abs=0.001)
        assert detectable_effect(20, 0.015) == pytest.approx(smallest, rel=0.002)
    finally:
        power._smallest_effects.cache_clear()


def test_too_few_blocks_show_nothing() -> None:
    assert detectable_effect(2, 0.025) == math.inf
    # Three equal differences do not reach a threshold of 1/alpha = 1e6.
    assert detectable_effect(3, 1e-6) == math.inf
    assert predict(math.inf, 3, 0.025).power == 1.0


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at most 500"):
        detectable_effect(501, 0.025)
    with pytest.raises(ValueError, match="at least 3"):
        predict(1.0, 2, 0.025)
    with pytest.raises(ValueError, match="alpha"):
        predict(1.0, 10, 0.0)
