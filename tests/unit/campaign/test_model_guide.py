"""What the model of effects says to a plan."""

from __future__ import annotations

import pytest

from tests.unit.campaign.histories import rules, trial
from tests.unit.propose.spaces import small
from tuner.model import BASELINE, BlockKind, BlockTimes, Configuration, Trial
from tuner.plan.model_guide import ModelGuide
from tuner.plan.scores import ScoreTable
from tuner.propose.prediction import Prediction
from tuner.propose.search import Search
from tuner.states import BlockState, TrialState

BLOCK = BlockTimes(
    number=1,
    kind=BlockKind.SEARCH,
    race=1,
    order=(0, 1),
    state=BlockState.COMPLETE,
    duration_s=4.0,
    reason="",
    testbed=None,
    times_s={0: (1.0, 1.0), 1: (1.0, 1.0)},
)


@pytest.mark.parametrize(("threads", "gain", "best"), [(5, 1e-17, False), (64, 0.05, True)])
def test_the_baseline_is_never_what_looks_best(
    monkeypatch: pytest.MonkeyPatch, threads: int, gain: float, best: bool
) -> None:
    """Features of the baseline may differ from 0 by rounding."""
    before = Configuration.of({"fileserver.threads": 5})
    prediction = Prediction(Configuration.of({"fileserver.threads": threads}), gain, 0.0, 1.0, ())
    monkeypatch.setattr(Search, "best", lambda search: prediction)
    of = rules()
    table = ScoreTable(of.components, of.weights)
    table.extend([BLOCK])
    trials = [Trial(BASELINE, before, 0, "as found", TrialState.RUNNING, {}), trial(1, 1)]
    view = ModelGuide(small(), before, of).look(trials, table, (), of.race.floor)
    assert view.best == (prediction if best else None)
