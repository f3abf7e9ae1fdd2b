"""Detection of a configuration's influence on a covariate, and the rate of false detections."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.judge.disturbed_arms import OTHERS, World
from tuner.judge.influence import ANY_LEVEL, FINALIST_LEVEL, Influence, influences
from tuner.judge.observations import Rows


def influence_of(world: World, seed: int, finalist: int | None = 1) -> Influence:
    observations = world.observations(seed)
    rows = Rows.of(observations, observations.logs, np.array([OTHERS]))
    (one,) = influences(rows, finalist, seed=seed)
    return one


def shares(world: World, seeds: range) -> tuple[float, float]:
    """Return how often each of the two tests is below its level."""
    each = [influence_of(world, seed) for seed in seeds]
    return (
        float(np.mean([one.any_trial <= ANY_LEVEL for one in each])),
        float(np.mean([one.finalist <= FINALIST_LEVEL for one in each])),
    )


@pytest.mark.slow
def test_without_influence_each_test_errs_at_its_level() -> None:
    """100 cases, within three standard errors."""
    any_trial, finalist = shares(World(blocks=8), range(100))
    assert any_trial <= 0.05 + 3.0 * (0.05 * 0.95 / 100) ** 0.5
    assert finalist == pytest.approx(0.1, abs=3.0 * (0.1 * 0.9 / 100) ** 0.5)


@pytest.mark.slow
def test_a_strong_influence_is_refused() -> None:
    strong = World(influence=0.6)
    assert all(influence_of(strong, seed).is_refused for seed in range(20))
    assert influence_of(strong, 1).any_trial <= ANY_LEVEL


def test_an_influence_that_only_hurts_the_finalist_is_detected_by_the_other_test() -> None:
    less = World(influence=-0.6)
    assert influence_of(less, 1).finalist > 0.9
    assert influence_of(less, 1).any_trial <= ANY_LEVEL


def test_without_a_finalist_its_p_value_is_one() -> None:
    for finalist in (None, 99):
        assert influence_of(World(influence=0.6), 1, finalist).finalist == 1.0


def test_the_result_is_determined_by_the_seed() -> None:
    assert influence_of(World(), 5) == influence_of(World(), 5)
