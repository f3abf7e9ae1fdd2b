"""The series for the drift plot."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.plan.histories import COMPONENTS, NOON, measurement
from tuner.model import BASELINE, Block, BlockKind
from tuner.plan.scores import ScoreTable
from tuner.results.drift import DriftPoint, drift
from tuner.states import BlockState

WEIGHTS = (0.5, 0.5)


def block(number: int, baseline_s: float, state: BlockState = BlockState.COMPLETE) -> Block:
    arms = (measurement(1, 0, (9.0, 9.0)), measurement(BASELINE, 1, (baseline_s, baseline_s)))
    return Block(number, BlockKind.SEARCH, 1, (1, BASELINE), state, arms)


def points_of(blocks: list[Block]) -> list[DriftPoint]:
    started = {b.number: m.started for b in blocks for m in b.measurements if m.trial == BASELINE}
    return drift(ScoreTable.of(blocks, COMPONENTS, WEIGHTS), started)


def test_the_baseline_is_relative_to_its_own_mean() -> None:
    points = points_of([block(1, 2.0), block(2, 8.0)])
    assert [p.block for p in points] == [1, 2]
    assert [p.ratio for p in points] == pytest.approx([0.5, 2.0])
    assert points[0].started == NOON


def test_its_mean_is_one_whatever_the_unit() -> None:
    seconds = [3.0, 1.0, 7.0, 2.5]
    for unit in (1.0, 1000.0):
        blocks = [block(n, unit * s) for n, s in enumerate(seconds, start=1)]
        logs = [math.log(p.ratio) for p in points_of(blocks)]
        assert sum(logs) == pytest.approx(0.0, abs=1e-12)
        assert logs[2] - logs[1] == pytest.approx(math.log(7.0))


def test_void_blocks_have_no_point() -> None:
    cut = replace(block(2, 5.0, BlockState.VOID), measurements=())
    assert [p.block for p in points_of([block(1, 2.0), cut])] == [1]
    assert points_of([]) == []
