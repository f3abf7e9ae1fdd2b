"""Arms as evidence: a configuration that takes many times as long tells little about others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.unit.propose.spaces import tunables
from tuner.model import Configuration
from tuner.propose.objective import Objective
from tuner.propose.search import Search
from tuner.propose.search_trials import Arm, SearchTrial, evidence_of

WEIGHTS = (0.5, 0.5)
FLOOR = math.log1p(0.25)
RECORDED = Path(__file__).parents[2] / "data" / "search" / "large-chunks-in-memory.json"


def test_a_component_counts_as_at_most_twice_the_median_of_its_block() -> None:
    slow, fast = math.log(9.0), -math.log(9.0)
    arms = [Arm(0, 7, (0.0, 0.1)), Arm(1, 7, (slow, 0.1)), Arm(2, 7, (0.0, fast))]
    arms += [Arm(trial, 8, (slow, slow)) for trial in range(3)]
    evidence = evidence_of(arms, {1: 0, 2: 1}, WEIGHTS, FLOOR)
    limited = [[0.0, 0.1], [math.log(2.0), 0.1], [0.0, fast], *[[slow, slow]] * 3]
    assert np.allclose(evidence.values[:, 1:], limited)
    assert np.allclose(evidence.values[:, 0], np.array(limited) @ WEIGHTS)


def test_a_component_counts_in_full_up_to_twice_its_floor() -> None:
    arms = [Arm(0, 1, (0.0, 0.0)), Arm(1, 1, (0.0, 5.0)), Arm(2, 1, (0.0, 0.0))]
    evidence = evidence_of(arms, {1: 0, 2: 1}, WEIGHTS, math.log(3.0))
    assert math.isclose(evidence.values[1, 2], 2.0 * math.log(3.0))


def test_there_may_be_no_arms_yet() -> None:
    assert evidence_of([], {}, WEIGHTS, FLOOR).values.shape == (0, 3)


@pytest.mark.parametrize("seed", range(4))
def test_a_few_ruinous_configurations_promise_no_gain_of_others(seed: int) -> None:
    """The first blocks of a campaign on a private cell, in which a cache in memory with large
    chunks took up to ten times as long in one component. It seemed that `-files` alone gains 15%.
    """
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    every = {int(n): Configuration.of(values) for n, values in recorded["trials"].items()}
    parts = tunables()
    trials = [SearchTrial(number, each) for number, each in every.items()]
    arms = [
        Arm(int(number), block, tuple(map(math.log, times_s)))
        for block, by_trial in enumerate(recorded["blocks"])
        for number, times_s in by_trial.items()
    ]
    weights = tuple(recorded["weights"])
    aims = Objective(weights=weights, floor=FLOOR, tolerance=(0.012, 0.049))
    search = Search(parts, every[0], trials, arms, aims, f"{seed}")
    first, *_ = search.contributions(search.best().configuration)
    assert first.name == "cache_manager.memcache"
