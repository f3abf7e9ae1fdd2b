"""What the model of effects says to a plan."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.plan.histories import BLOCK, rules, trial
from tests.unit.propose.spaces import small
from tuner.model import BASELINE, BlockTimes, Configuration, Prior, Trial
from tuner.plan.model_guide import ModelGuide
from tuner.plan.scores import ScoreTable
from tuner.propose.prediction import Prediction
from tuner.propose.proposer import Proposal
from tuner.propose.search import Search
from tuner.propose.strategies import proposer as create_proposer
from tuner.states import TrialState

BEFORE = Configuration.of({"fileserver.threads": 5})
TRIALS = [Trial(BASELINE, BEFORE, 0, "as found", TrialState.RUNNING, {}), trial(1, 1)]


def score_table(*blocks: BlockTimes) -> ScoreTable:
    of = rules()
    table = ScoreTable(of.components, of.weights)
    table.extend(blocks)
    return table


@pytest.mark.parametrize("most", [0, 1, 4])
def test_configurations_of_earlier_campaigns_count_as_new(most: int) -> None:
    priors = [
        Prior(Configuration.of({"fileserver.threads": threads}), -0.3, "earlier:1")
        for threads in (64, 72, 80)
    ]
    guide = ModelGuide(small(), BEFORE, rules(), priors=priors)
    picks = guide.look(TRIALS, score_table(BLOCK), (), 0.05).picks(4, most)
    assert sum(isinstance(pick, Proposal) for pick in picks) <= most
    # Where none may be new, they do not take the place of a trial that can be measured.
    assert most > 0 or picks == [1]


def test_a_single_arm_is_for_the_leading_trial_and_new_ones_in_turn() -> None:
    proposer = create_proposer("random", small(), 1)
    blocks = [BLOCK]
    new: list[bool] = []
    for number in range(2, 6):
        guide = ModelGuide(small(), BEFORE, rules(), proposer=proposer)
        (pick,) = guide.look(TRIALS, score_table(*blocks), (), 0.05).picks(1, None)
        new.append(isinstance(pick, Proposal))
        blocks.append(replace(BLOCK, number=number))
    assert new == [True, False, True, False]


@pytest.mark.parametrize("testbeds", [1, 2, 3])
def test_the_kinds_of_block_alternate_with_every_decision(
    monkeypatch: pytest.MonkeyPatch, testbeds: int
) -> None:
    """However many blocks a decision is about."""
    rounds: list[int | None] = []
    init = Search.__init__

    def noting(search: Search, *args: Any, **kwargs: Any) -> None:
        rounds.append(kwargs["rounds"])
        init(search, *args, **kwargs)

    monkeypatch.setattr(Search, "__init__", noting)
    blocks: list[BlockTimes] = []
    for decision in range(3):
        first = decision * testbeds + 1
        blocks += [
            replace(BLOCK, number=first + slot, batch=first if testbeds > 1 else None, slot=slot)
            for slot in range(testbeds)
        ]
        ModelGuide(small(), BEFORE, rules()).look(TRIALS, score_table(*blocks), (), 0.05)
    assert rounds == [1, 2, 3]


@pytest.mark.parametrize(("threads", "gain", "best"), [(5, 1e-17, False), (64, 0.05, True)])
def test_the_baseline_is_never_what_looks_best(
    monkeypatch: pytest.MonkeyPatch, threads: int, gain: float, best: bool
) -> None:
    """Features of the baseline may differ from 0 by rounding."""
    prediction = Prediction(Configuration.of({"fileserver.threads": threads}), gain, 0.0, 1.0, ())
    monkeypatch.setattr(Search, "best", lambda search: prediction)
    guide = ModelGuide(small(), BEFORE, rules())
    view = guide.look(TRIALS, score_table(BLOCK), (), rules().race.floor)
    assert view.best == (prediction if best else None)


def test_a_look_back_is_what_would_have_been_expected_then() -> None:
    """Also in the guide of a campaign that goes on, whose next look is at all blocks again."""
    rng = random.Random(3)
    blocks = [
        replace(BLOCK, number=n, times_s={0: (1.0, 1.0), 1: (rng.uniform(0.7, 0.9), 0.8)})
        for n in range(1, 9)
    ]
    floor = rules().race.floor

    def expected(guide: ModelGuide, table: ScoreTable) -> Prediction:
        return guide.look(TRIALS, table, (), floor).prediction(TRIALS[1])

    guide, table = ModelGuide(small(), BEFORE, rules()), score_table(*blocks)
    now = expected(guide, table)
    for complete in (2, 5, 8):
        then = expected(guide, table.first(complete))
        alone = ModelGuide(small(), BEFORE, rules())
        assert then == expected(alone, score_table(*blocks[:complete]))
        assert (then == now) == (complete == len(blocks))
        assert expected(guide, table) == now


def test_where_a_sampler_has_nothing_new_the_block_is_filled_with_what_was_measured() -> None:
    proposer = create_proposer("random", small(), 1)
    guide = ModelGuide(small(), BEFORE, rules(), proposer=proposer)
    several = {"fileserver.threads": (16, 64, 128), "fileserver.dir_buffers": (60, 80)}
    settings = [{name: value} for name, values in several.items() for value in values]
    trials = [
        *TRIALS[:1],
        *(
            Trial(n, Configuration.of(BEFORE.as_dict() | one), 1, "random", TrialState.RUNNING, {})
            for n, one in enumerate(settings, 1)
        ),
    ]
    picks = guide.look(trials, score_table(BLOCK), (), rules().race.floor).picks(4, 0)
    assert len(set(picks)) == 4
    assert set(picks) <= set(range(1, 6))
