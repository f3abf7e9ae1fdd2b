"""The cost of a campaign so far and how long it will take, by time or by measurements, whichever
ends first.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.campaign.histories import rules
from tuner.plan.budget import Cost
from tuner.time_use import TimeUse


def test_time_and_measurements_are_a_budget_each() -> None:
    cost = Cost(seconds=600.0, measurements=60)
    by_time = rules(budget_s=6000.0, budget_measurements=None)
    assert cost.used(by_time) == pytest.approx(0.1)
    assert cost.left_s(TimeUse(wall_s=600.0), by_time) == pytest.approx(5400.0)
    by_number = rules(budget_s=6000.0, budget_measurements=120)
    assert cost.used(by_number) == pytest.approx(0.5)
    assert cost.left_s(TimeUse(wall_s=600.0), by_number) == pytest.approx(600.0)
    assert Cost(7000.0, 60).left_s(TimeUse(), by_time) == 0.0


def test_a_comparison_ends_when_every_configuration_has_had_its_blocks() -> None:
    cost = Cost(seconds=600.0, measurements=15)
    compared = rules(budget_s=6000.0, compares=True, finalists=2, certify_blocks=10)
    assert cost.used(compared) == pytest.approx(0.5)
    assert cost.left_s(TimeUse(wall_s=600.0), compared) == pytest.approx(600.0)
    assert replace(compared, budget_measurements=20).most_measurements == 20
    assert replace(compared, budget_measurements=90).most_measurements == 30
    assert replace(compared, compares=False).most_measurements is None


def test_overhead_between_blocks_is_expected_to_continue() -> None:
    cost = Cost(seconds=600.0, measurements=60)
    limits = rules(budget_s=6000.0, budget_measurements=None)
    assert cost.left_s(TimeUse(wall_s=900.0), limits) == pytest.approx(1.5 * 5400.0)
    # The testbed is brought up only once, however long that takes.
    slow_start = TimeUse(wall_s=900.0, testbed_s=300.0)
    assert cost.left_s(slow_start, limits) == pytest.approx(5400.0)


def test_the_remaining_arms_follow_from_pace_and_count() -> None:
    cost = Cost(seconds=600.0, measurements=60)
    assert cost.arms_left(rules(budget_s=1000.0)) == pytest.approx(40.0)
    assert cost.arms_left(rules(budget_s=1000.0, budget_measurements=70)) == pytest.approx(10.0)
    assert cost.total_arms(rules(budget_s=1000.0)) == pytest.approx(100.0)
    assert cost.arms_left(rules(budget_s=500.0)) == 0.0


def test_a_void_block_without_measurements_gives_no_pace() -> None:
    cost = Cost(seconds=3.0, measurements=0)
    assert cost.arms_left(rules(budget_s=500.0)) == math.inf
    assert cost.arms_left(rules(budget_s=500.0, budget_measurements=9)) == 9.0


def test_without_measurements_nothing_can_be_estimated() -> None:
    assert Cost(0.0, 0).left_s(TimeUse(wall_s=5.0), rules()) is None
    assert Cost(0.0, 0).pace(TimeUse(wall_s=5.0)) == 1.0
