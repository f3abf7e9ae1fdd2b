"""When the guards are checked."""

from __future__ import annotations

import pytest

from tests.unit.campaign.histories import COMPONENTS, measurement
from tuner.model import BASELINE, Block, BlockKind
from tuner.plan.certifying import guards_due
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
