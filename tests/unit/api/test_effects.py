"""What the pages say of parameters: marginal means, and how values are put together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.effects import parameter_effects
from tuner.model import BASELINE, Configuration, Trial, Value
from tuner.records.estimate import Estimate
from tuner.states import TrialState


def trial(number: int, **values: Value) -> Trial:
    configuration = Configuration.of({f"cache_manager.{name}": v for name, v in values.items()})
    return Trial(number, configuration, 1, "tpe", TrialState.RUNNING)


def known(ratio: float, blocks: int) -> tuple[Estimate, int]:
    return Estimate(ratio, 0.0, math.inf), blocks


def test_a_trial_counts_by_its_blocks() -> None:
    trials = [trial(BASELINE), trial(1, daemons=2), trial(2, daemons=2), trial(3, daemons=6)]
    (effect,) = parameter_effects(trials, {1: known(0.5, 3), 2: known(1.0, 1), 3: known(2.0, 5)})
    assert effect.name == "cache_manager.daemons"
    two, six = effect.marginals
    assert (two.values, two.trials, two.blocks) == ("2", 2, 4)
    assert two.ratio == pytest.approx(0.5**0.75)
    assert (six.values, six.trials, six.blocks) == ("6", 1, 5)
    assert six.ratio == pytest.approx(2.0)
    assert effect.spread == pytest.approx(2.0 / 0.5**0.75)


def test_the_baseline_and_what_was_not_measured_say_nothing() -> None:
    trials = [trial(BASELINE, daemons=1), trial(1, daemons=2), trial(2, daemons=6)]
    assert parameter_effects(trials, {BASELINE: known(1.0, 9), 1: known(0.5, 3)}) == ()


def test_words_come_after_numbers_and_what_is_not_set_comes_last() -> None:
    trials = [trial(1), trial(2, size="auto"), trial(3, size=9), trial(4, size=10)]
    (effect,) = parameter_effects(trials, {n: known(0.9, 1) for n in (1, 2, 3, 4)})
    assert [m.values for m in effect.marginals] == ["9", "10", "auto", "not set"]
    trials = [trial(1, sync=True), trial(2, sync=False)]
    (effect,) = parameter_effects(trials, {1: known(0.9, 1), 2: known(1.1, 1)})
    assert [(m.values, round(m.ratio, 3)) for m in effect.marginals] == [("off", 1.1), ("on", 0.9)]


def test_what_spreads_most_comes_first() -> None:
    trials = [trial(1, a=1, b=1), trial(2, a=2, b=1), trial(3, a=1, b=2), trial(4, a=2, b=2)]
    estimates = {1: known(1.0, 4), 2: known(0.9, 4), 3: known(0.5, 4), 4: known(0.45, 4)}
    found = parameter_effects(trials, estimates)
    assert [e.name for e in found] == ["cache_manager.b", "cache_manager.a"]


@given(
    values=st.dictionaries(st.integers(1, 500), st.integers(-5, 5), min_size=2, max_size=60),
)
def test_many_numbers_are_few_groups_in_order_that_hold_every_trial(
    values: dict[int, int],
) -> None:
    trials = [trial(number, size=value) for number, value in values.items()]
    effects = parameter_effects(trials, {n: known(0.9 + n / 1000, n) for n in values})
    distinct = len(set(values.values()))
    if distinct == 1:
        assert effects == ()
        return
    (effect,) = effects
    assert len(effect.marginals) == min(4, distinct)
    assert sum(m.trials for m in effect.marginals) == len(values)
    assert sum(m.blocks for m in effect.marginals) == sum(values)
    firsts = [int(m.values.split(" to ")[0]) for m in effect.marginals]
    assert firsts == sorted(firsts)
