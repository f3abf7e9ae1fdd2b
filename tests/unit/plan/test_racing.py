"""The judgement of every trial, block by block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.plan.histories import BLOCK, rules, trial
from tuner.plan.racing import Replay, advance
from tuner.plan.scores import ScoreTable


@pytest.mark.parametrize("seed", range(8))
def test_the_incumbent_is_the_same_after_a_resume(seed: int) -> None:
    """A promotion that later blocks take back is known to nobody who begins with all of them."""
    of, rng = rules(), np.random.default_rng(seed)
    trials = [trial(1, 1), trial(2, 1)]
    table, live = ScoreTable(of.components, of.weights), Replay()
    for number in range(1, 25):
        times = {n: tuple(np.exp(rng.normal(-0.08 * (n > 0), 0.06, 2))) for n in range(3)}
        table.extend([replace(BLOCK, number=number, order=(0, 1, 2), times_s=times)])
        advance(live, trials, table, of, ())
        resumed = Replay()
        states = [
            replace(each, state=live.endings[each.number].state)
            if each.number in live.endings
            else each
            for each in trials
        ]
        advance(resumed, states, table, of, ())
        assert resumed.incumbent(table, ()) == live.incumbent(table, ())
