"""Attempts at a certificate: which blocks belong to which attempt, and the error they share."""

from __future__ import annotations

import pytest

from tests.unit.plan.histories import COMPONENTS, measurement
from tuner.judge.levels import ALPHA
from tuner.model import BASELINE, Block, BlockKind, BlockTimes
from tuner.plan.attempts import alpha_of, attempts
from tuner.plan.scores import block_times
from tuner.states import BlockState


def test_all_errors_together_are_no_more_than_the_campaigns() -> None:
    alphas = [alpha_of(number) for number in range(1, 200)]
    assert sum(alphas) <= ALPHA * (1.0 + 1e-12)
    assert sum(alphas) == pytest.approx(ALPHA)
    assert alphas == sorted(alphas, reverse=True)
    assert alphas[0] == pytest.approx(0.015)


def block(
    number: int, round_: int, *trials: int, kind: BlockKind = BlockKind.CERTIFY, void: bool = False
) -> BlockTimes:
    order = (BASELINE, *trials)
    arms = tuple(measurement(n, place, (1.0, 1.0)) for place, n in enumerate(order))
    state = BlockState.VOID if void else BlockState.COMPLETE
    return block_times(Block(number, kind, round_, order, state, arms), COMPONENTS)


def test_blocks_of_one_round_are_one_attempt() -> None:
    blocks = [
        block(1, 1, 1, 2, kind=BlockKind.SEARCH),
        block(2, 2, 2),
        block(3, 2, 2),
        block(4, 3, 1, 3, kind=BlockKind.SEARCH),
        block(5, 4, 3),
    ]
    first, second = attempts(blocks)
    assert (first.number, first.round, first.finalists) == (1, 2, (2,))
    assert [b.number for b in first.blocks] == [2, 3]
    assert first.alpha == alpha_of(1)
    assert (second.number, second.round, second.finalists) == (2, 4, (3,))
    assert [b.number for b in second.blocks] == [5]
    assert second.alpha == alpha_of(2)


def test_the_same_finalist_again_is_another_attempt_on_its_own_blocks() -> None:
    blocks = [block(1, 2, 7), block(2, 2, 7), block(3, 5, 7)]
    first, second = attempts(blocks)
    assert first.finalists == second.finalists == (7,)
    assert [b.number for b in first.blocks] == [1, 2]
    assert [b.number for b in second.blocks] == [3]


def test_finalists_are_those_of_the_first_block_though_it_is_void() -> None:
    blocks = [block(1, 2, 4, 3, void=True), block(2, 2, 4)]
    (only,) = attempts(blocks)
    assert only.finalists == (3, 4)
    assert [b.number for b in only.blocks] == [2]


def test_an_attempt_without_a_complete_block_has_used_its_error() -> None:
    blocks = [block(1, 2, 4, void=True), block(2, 3, 4)]
    first, second = attempts(blocks)
    assert first.blocks == ()
    assert second.alpha == alpha_of(2) < first.alpha


def test_no_fresh_block_no_attempt() -> None:
    blocks = [block(1, 1, 1, kind=BlockKind.SEARCH), block(2, 0, 1, kind=BlockKind.PILOT)]
    assert attempts(blocks) == ()
