"""A prior of an earlier campaign no longer counts once its configuration is measured here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from search_spaces import Chance, draw
from tests.unit.plan.histories import rules
from tests.unit.propose.spaces import FACTS, SERVER, SMALL_CLIENT, small, tunables
from tuner.model import BASELINE, Configuration, Prior, Trial, Value
from tuner.plan.model_guide import ModelGuide
from tuner.plan.scores import ScoreTable
from tuner.propose.allowed import is_allowed
from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Proposal
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


def priors_of(
    tunables: Mapping[str, Tunable], *configurations: Configuration
) -> set[Configuration]:
    """Return the configurations that a campaign measures first, given promising priors."""
    rules_here = rules()
    priors = [Prior(one, -0.5, f"earlier:{n}") for n, one in enumerate(configurations, 1)]
    guide = ModelGuide(tunables, Configuration(), rules_here, priors=priors)
    trials = [Trial(BASELINE, Configuration(), 0, "as found", TrialState.RUNNING, {})]
    table = ScoreTable(rules_here.components, rules_here.weights)
    view = guide.look(trials, table, (), rules_here.race.floor)
    picks = view.picks(8, None)
    return {pick.configuration for pick in picks if isinstance(pick, Proposal)}


def test_a_prior_that_the_file_does_not_allow_is_not_tried() -> None:
    """An earlier campaign searched other parameters, in wider ranges."""
    inside = Configuration.of({"fileserver.threads": 64})
    above = Configuration.of({"fileserver.threads": 200})
    risky = Configuration.of({"fileserver.threads": 64, "fileserver.sync_behavior": "onclose"})
    narrow = tunables(SERVER.narrow(only=("threads",), ranges={"threads": (16, 64)}), SMALL_CLIENT)
    arms = priors_of(narrow, inside, above, risky)
    assert inside in arms
    assert above not in arms
    assert all("fileserver.sync_behavior" not in arm.as_dict() for arm in arms)


def test_a_fixed_value_is_set_whatever_an_earlier_campaign_had() -> None:
    fixed_space = SERVER.narrow(
        only=("threads",), fix={"sync_behavior": "always"}, allow_risk=("durability",)
    )
    other = Configuration.of({"fileserver.threads": 64, "fileserver.sync_behavior": "onclose"})
    arms = priors_of(tunables(fixed_space, SMALL_CLIENT), other)
    assert arms
    assert all(arm.as_dict()["fileserver.sync_behavior"] == "always" for arm in arms)


def test_a_prior_with_a_value_that_the_space_has_lost_is_left_out() -> None:
    outdated = Configuration.of({"fileserver.threads": 64, "fileserver.sync_behavior": "sometimes"})
    guide = ModelGuide(
        small(), Configuration(), rules(), priors=[Prior(outdated, -0.5, "earlier:1")]
    )
    assert guide.priors == []


def test_a_prior_may_replace_a_preset_by_its_values() -> None:
    """Every configuration does where one of these values is searched."""
    initial: dict[str, Value] = {"preset": "L"}
    space = SERVER.narrow(only=("threads",))
    tunable = Tunable(space, FACTS, initial)
    values = draw(space, Chance(1, 1.0), FACTS, initial)
    assert "preset" not in values
    prior = Configuration.of({f"fileserver.{name}": value for name, value in values.items()})
    assert is_allowed(prior, {"fileserver": tunable})
    other = Configuration.of({**prior.as_dict(), "fileserver.dir_buffers": 4000})
    assert not is_allowed(other, {"fileserver": tunable})
