"""When the guards are checked, and on which blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.plan.histories import COMPONENTS, measurement
from tuner.judge.assumptions import Alarm, GuardKind
from tuner.model import BASELINE, Block, BlockKind
from tuner.plan.certifying import guards, guards_due
from tuner.plan.scores import ScoreTable
from tuner.states import BlockState

COMPLETE, VOID = BlockState.COMPLETE, BlockState.VOID


def blocks(
    count: int, kind: BlockKind = BlockKind.SEARCH, state: BlockState = COMPLETE
) -> list[Block]:
    arms = (measurement(BASELINE, 0, (1.0, 1.0)), measurement(1, 1, (1.0, 1.0)))
    return [Block(n, kind, 1, (BASELINE, 1), state, arms) for n in range(1, count + 1)]


def due(some: list[Block]) -> bool:
    return guards_due(ScoreTable.of(some, COMPONENTS, (0.5, 0.5)))


@pytest.mark.slow
def test_in_a_search_guards_are_checked_at_ever_longer_intervals() -> None:
    assert [n for n in range(200) if due(blocks(n))] == [10, 20, 40, 80, 160]


def test_void_blocks_do_not_count() -> None:
    assert due([*blocks(10), *blocks(3, state=VOID)])
    assert not due(blocks(10, state=VOID))


def test_in_a_certification_guards_are_checked_at_every_block() -> None:
    for fresh in range(1, 5):
        assert due([*blocks(12), *blocks(fresh, BlockKind.CERTIFY)])


def swinging(count: int) -> list[Block]:
    """Return fresh blocks, alternately on two testbeds. On each of them the trial swings slowly
    around the baseline, in opposite directions.
    """
    result = []
    for block in blocks(count, BlockKind.CERTIFY):
        place = block.number % 2
        time = math.exp((-1) ** place * 0.1 * math.sin(block.number / 5.0))
        arms = (measurement(BASELINE, 0, (1.0, 1.0)), measurement(1, 1, (time, time)))
        result.append(replace(block, measurements=arms, testbed="ab"[place]))
    return result


def dependence_of(some: list[Block], until: int | None = None) -> Alarm:
    watched = guards(ScoreTable.of(some, COMPONENTS, (0.5, 0.5)), until)
    return next(guard.alarm for guard in watched if guard.kind is GuardKind.DEPENDENCE)


def test_dependence_is_that_of_blocks_on_the_same_testbed() -> None:
    both = swinging(40)
    assert dependence_of(both) is Alarm.REFUSE
    assert dependence_of(both, until=29) is Alarm.REFUSE
    # In the order in which they were measured, they look like the opposite.
    assert dependence_of([replace(block, testbed=None) for block in both]) is Alarm.NONE
