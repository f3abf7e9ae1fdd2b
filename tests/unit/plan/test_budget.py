"""The cost of a campaign so far and how long it will take, by time or by measurements, whichever
ends first.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.plan.histories import BLOCK, COMPONENTS, planner, rules, trial
from tuner.model import BlockTimes
from tuner.plan.budget import Cost
from tuner.plan.scores import ScoreTable
from tuner.states import BlockState
from tuner.text import duration
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


def test_arms_that_fail_take_time_too() -> None:
    """A campaign of which half the configurations fail must not expect runs of twice the time."""
    limits = rules(budget_s=1000.0, budget_measurements=None)
    times = dict.fromkeys(range(3), (1.0, 1.0))
    block = replace(BLOCK, order=tuple(range(6)), times_s=times, duration_s=60.0)
    table = ScoreTable.of([block], COMPONENTS, limits.weights)
    for cost in (Cost.of(table), Cost.until([block], 1)):
        assert (cost.measurements, cost.failed) == (3, 3)
        assert cost.seconds_an_arm == pytest.approx(10.0)
        assert cost.arms_left(limits) == pytest.approx(94.0)
        assert cost.total_arms(limits) == pytest.approx(100.0)
    # Measurements are counted, not arms.
    assert Cost.of(table).arms_left(rules(budget_s=1000.0, budget_measurements=10)) == 7.0
    void = replace(block, state=BlockState.VOID)
    assert Cost.until([void], 1).seconds_an_arm == pytest.approx(20.0)


def test_without_measurements_nothing_can_be_estimated() -> None:
    assert Cost(0.0, 0).left_s(TimeUse(wall_s=5.0), rules()) is None
    assert Cost(0.0, 0).pace(TimeUse(wall_s=5.0)) == 1.0


def test_what_is_left_is_told_of_the_budget_that_ends_first_unless_it_is_little() -> None:
    cost = Cost(seconds=600.0, measurements=60)
    assert cost.spare(rules(budget_s=1000.0, budget_measurements=None)) == duration(400.0)
    assert cost.spare(rules(budget_s=1000.0, budget_measurements=200)) == duration(400.0)
    assert cost.spare(rules(budget_s=1000.0, budget_measurements=80)) == "20 measurements"
    assert cost.spare(rules(budget_s=650.0, budget_measurements=None)) == ""
    assert cost.spare(rules(budget_s=1000.0, budget_measurements=61)) == ""
    assert Cost(0.0, 0).spare(rules()) == ""


def batch(number: int, testbeds: str, *, seconds: float = 40.0, arms: int = 5) -> list[BlockTimes]:
    """A batch of this elapsed time (s), with this many arms on each of these testbeds."""
    return [
        replace(
            BLOCK,
            number=number + slot,
            batch=number,
            slot=slot,
            testbed=testbed,
            duration_s=seconds / len(testbeds),
            order=tuple(range(arms)),
            times_s=dict.fromkeys(range(arms), (1.0, 1.0)),
        )
        for slot, testbed in enumerate(testbeds)
    ]


def cost_of(blocks: list[BlockTimes], testbeds: int | None = None) -> Cost:
    return Cost.of(ScoreTable.of(blocks, COMPONENTS, (0.5, 0.5)), testbeds)


def test_fewer_testbeds_than_before_allow_fewer_arms() -> None:
    limits = rules(budget_s=1000.0)
    blocks = [block for number in (1, 5, 9) for block in batch(number, "abcd")]
    # 60 arms in 120 s, a third of them in 40 s on each testbed.
    assert cost_of(blocks, 4).arms_left(limits) == pytest.approx(440.0)
    assert cost_of(blocks, 4).slowdown == 1.0
    assert cost_of(blocks, 2).arms_left(limits) == pytest.approx(220.0)
    assert cost_of(blocks, 1).arms_left(limits) == pytest.approx(110.0)
    assert cost_of(blocks).arms_left(limits) == pytest.approx(440.0)
    # It stays so as the one testbed goes on: 8 s an arm.
    blocks += [block for number in (13, 14, 15, 16) for block in batch(number, "a")]
    assert cost_of(blocks, 1).arms_left(limits) == pytest.approx(720.0 / 8.0)
    # One that waits for others, or comes back, makes nothing faster than it was.
    assert cost_of(blocks, 4).slowdown == 1.0


def test_the_number_of_measurements_left_does_not_depend_on_the_testbeds() -> None:
    blocks = batch(1, "abcd")
    limits = rules(budget_s=1e6, budget_measurements=100)
    assert cost_of(blocks, 1).arms_left(limits) == cost_of(blocks, 4).arms_left(limits) == 80.0


def test_blocks_measured_alone_have_no_slowdown() -> None:
    blocks = [replace(BLOCK, number=number) for number in range(1, 9)]
    assert cost_of(blocks, 1) == cost_of(blocks)


def test_a_plan_without_the_lost_testbeds_has_room_for_fewer_fresh_blocks() -> None:
    limits = rules(testbeds=4, budget_s=120.0 + 65.0)
    # As stored: each block took 40 s on its own testbed.
    blocks = [block for number in (1, 5, 9) for block in batch(number, "abcd", seconds=160.0)]
    trials = [trial(number, min(number, 1)) for number in range(5)]
    # In 65 s the testbeds measure two arms four times: four blocks on one, sixteen on four.
    rooms = [
        planner(limits).plan_batch(trials, blocks, testbeds=testbeds).room for testbeds in (4, 2, 1)
    ]
    assert rooms == [16, 8, 4]
