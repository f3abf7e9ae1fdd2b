"""Choice of the floor: the smallest that is likely to be shown, as often as predicted."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.judge.auto_floor import ENOUGH, FLOORS, choose_floor, floor_chance
from tuner.judge.evalue import e_values
from tuner.judge.power import predict
from tuner.judge.score import margin
from tuner.judge.thresholds import threshold

QUIET, NOISY = (0.02,) * 5, (0.15, 0.2, 0.12, 0.25, 0.15)


def test_a_quiet_testbed_shows_the_smallest_and_a_noisy_one_a_larger_floor() -> None:
    quiet, noisy = (choose_floor(sds, 10, 15, 0.2) for sds in (QUIET, NOISY))
    assert quiet.floor == FLOORS[0]
    assert quiet.chance > 0.99
    assert noisy.floor > quiet.floor
    assert noisy.chance >= ENOUGH
    assert noisy.reason.startswith(f"{100 * noisy.floor:.0f}")


@pytest.mark.parametrize("floor", FLOORS)
def test_the_chance_grows_with_blocks_and_floors_and_falls_with_noise(floor: float) -> None:
    here = floor_chance(floor, NOISY, 5, 12, 0.2)
    assert floor_chance(floor, NOISY, 5, 24, 0.2) >= here
    assert floor_chance(floor, [2 * sd for sd in NOISY], 5, 12, 0.2) <= here
    assert floor_chance(floor + 0.1, NOISY, 5, 12, 0.2) >= here
    assert floor_chance(floor, NOISY, 5, 12, 0.02) <= here
    assert floor_chance(floor, NOISY[:2], 5, 12, 0.2) >= here


def test_the_smallest_likely_one_is_chosen() -> None:
    choice = choose_floor(NOISY, 8, 12, 0.2)
    chances = {floor: floor_chance(floor, NOISY, 8, 12, 0.2) for floor in FLOORS}
    assert choice.chance == chances[choice.floor]
    assert all(chance < ENOUGH for floor, chance in chances.items() if floor < choice.floor)


def test_if_none_is_likely_the_largest_is_chosen_and_reported() -> None:
    choice = choose_floor((1.0, 1.0), 5, 10, 0.015)
    assert choice.floor == FLOORS[-1]
    assert choice.chance < ENOUGH
    assert choice.reason.startswith("not even a floor of 50")
    assert choose_floor(QUIET, 5, 2, 0.2).chance == 0.0


def test_with_well_known_noise_the_chance_is_the_power_of_the_test() -> None:
    """With many pilot blocks and one component."""
    chance = floor_chance(0.2, (0.2,), 100_000, 12, 0.2)
    assert chance == pytest.approx(predict(margin(0.2) / 0.2, 12, 0.2).power, abs=0.005)


def test_without_noise_every_floor_is_shown() -> None:
    assert floor_chance(0.1, (0.0, 0.0), 3, 10, 0.2) == 1.0


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="3 pilot blocks"):
        choose_floor(QUIET, 2, 10, 0.2)
    with pytest.raises(ValueError, match="a component"):
        choose_floor((), 5, 10, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("pilot_blocks", [3, 8, 20])
def test_floors_are_shown_as_often_as_predicted(pilot_blocks: int) -> None:
    """Pilots with components of different noise, then certifications without a change: all floors
    are shown in 80% of them, or slightly fewer if the pilot is short.
    """
    rng = np.random.default_rng(pilot_blocks)
    level, successes, certify = threshold(0.2, 15), [], 15
    for _ in range(150):
        sds = 0.15 * np.exp(0.3 * rng.standard_normal(6))
        pilot = (sds[:, None] * rng.standard_normal((6, pilot_blocks))).std(axis=1, ddof=1)
        choice = choose_floor(pilot.tolist(), pilot_blocks, certify, 0.2)
        room = margin(choice.floor) - sds[:, None] * rng.standard_normal((6, certify))
        successes.append(bool((e_values(room)[:, 2:] >= level).any(axis=1).all()))
    assert np.mean(successes) >= 0.75
