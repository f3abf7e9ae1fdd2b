"""A prior of an earlier campaign no longer counts once its configuration is measured here."""

from __future__ import annotations

import pytest

from tests.unit.campaign.histories import rules
from tests.unit.propose.spaces import small
from tuner.model import BASELINE, Configuration, Prior, Trial
from tuner.plan.model_guide import ModelGuide
from tuner.plan.scores import ScoreTable
from tuner.states import TrialState

PROMISING = Configuration.of({"fileserver.threads": 64})
PRIORS = [Prior(PROMISING, -0.5, "earlier:1")]


def hope(state: TrialState | None, out: tuple[int, ...] = (), *, new: bool = False) -> float:
    """Return the probability of a large gain, given a promising prior. Unless ``new``, no
    configuration may be added to the campaign.
    """
    trials = [Trial(BASELINE, Configuration(), 0, "as found", TrialState.RUNNING, {})]
    if state is not None:
        trials.append(Trial(1, PROMISING, 1, "model", state, {}))
    of = rules()
    guide = ModelGuide(small(), Configuration(), of, priors=PRIORS)
    table = ScoreTable(of.components, of.weights)
    return guide.look(trials, table, out, of.race.floor).hope(0.1, new=new)


def test_a_prior_raises_hopes() -> None:
    assert hope(None, new=True) > 0.5
    assert hope(None) == 0.0


@pytest.mark.parametrize(
    ("state", "out"), [(TrialState.FAILED, ()), (TrialState.PRUNED, (1,))], ids=["failed", "out"]
)
def test_what_failed_or_was_dropped_here_stays_out(state: TrialState, out: tuple[int, ...]) -> None:
    assert hope(state, out) == 0.0
