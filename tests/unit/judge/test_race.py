"""The race: every rule in isolation, their precedence, and the error rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.confidence import confidence_interval
from tuner.judge.race import (
    Action,
    Decision,
    RaceBlock,
    RaceRules,
    RaceState,
    decide,
    futility_alpha,
)
from tuner.judge.thresholds import threshold
from tuner.judge.verdict import Outcome
from tuner.judge.words import change

RULES = RaceRules(delta=0.02, max_blocks=30)


def race_blocks(
    effects: Mapping[int, float | tuple[float, ...]],
    n: int,
    sd: float,
    *,
    seed: int = 0,
    incumbent: int = 0,
    components: int = 1,
) -> tuple[RaceBlock, ...]:
    """Draw log-normal times around exp(effect); one effect for all components or one each."""
    rng = np.random.default_rng(seed)
    return tuple(
        RaceBlock(
            {
                trial: tuple(np.exp(rng.normal(effect, sd, components)).tolist())
                for trial, effect in effects.items()
            },
            incumbent,
        )
        for _ in range(n)
    )


def run(
    blocks: tuple[RaceBlock, ...], *live: int, incumbent: int = 0, rules: RaceRules = RULES
) -> dict[int, Decision]:
    components = len(blocks[0].times_s[0]) if blocks else 1
    weights = (1.0 / components,) * components
    state = RaceState(blocks, frozenset(live), incumbent, weights)
    return {decision.trial: decision for decision in decide(state, rules)}


def test_clear_cases() -> None:
    blocks = race_blocks({0: 0.0, 1: -0.2, 2: 0.3, 3: 0.0}, 10, 0.01)
    decisions = run(blocks, 1, 2, 3, 4, rules=RaceRules(delta=0.02, max_blocks=30, floor=2.0))
    assert [decisions[t].action for t in (1, 2, 3, 4)] == [
        Action.PROMOTE,
        Action.PRUNE,
        Action.EQUIVALENT,
        Action.KEEP,
    ]
    assert [decisions[t].verdict.outcome for t in (1, 2, 3, 4)] == [
        Outcome.BETTER,
        Outcome.WORSE_BY_DELTA,
        Outcome.EQUIVALENT,
        Outcome.UNDECIDED,
    ]
    assert all(d.against == 0 for d in decisions.values())
    assert decisions[1].reason == decisions[1].verdict.reason
    assert decisions[1].reason.startswith(change(decisions[1].verdict.estimate))
    assert decisions[2].reason.startswith("not 2.0% faster than baseline: 3")
    assert decisions[3].reason.startswith("within 2.0% of baseline: ")
    assert decisions[4].reason == "3 blocks needed: too early to judge: 0 blocks measured, 3 needed"


def test_nothing_is_decided_before_min_blocks() -> None:
    blocks = race_blocks({0: 0.0, 1: -1.0, 2: 1.0}, 4, 0.001)
    patient = RaceRules(delta=0.02, max_blocks=30, min_blocks=5)
    assert {d.action for d in run(blocks, 1, 2, rules=patient).values()} == {Action.KEEP}
    assert {d.action for d in run(blocks[:2], 1, 2).values()} == {Action.KEEP}
    assert {d.action for d in run(blocks[:3], 1, 2).values()} == {Action.PROMOTE, Action.PRUNE}


def test_better_but_not_worth_it_is_not_promoted() -> None:
    """A gain of 1% shown beyond doubt, with delta 2%, is settled, not promoted."""
    decisions = run(race_blocks({0: 0.0, 1: -0.01}, 20, 0.001), 1)
    assert decisions[1].action is Action.EQUIVALENT
    assert decisions[1].verdict.interval.upper < 0.0
    assert "1.0% faster" in decisions[1].reason


def test_only_the_best_of_several_is_promoted() -> None:
    decisions = run(race_blocks({0: 0.0, 1: -0.2, 2: -0.4, 3: -0.3}, 10, 0.01), 1, 2, 3)
    assert [decisions[t].action for t in (1, 2, 3)] == [Action.KEEP, Action.PROMOTE, Action.KEEP]
    assert decisions[1].reason.startswith("trial 2 is promoted first: 2")


def test_a_new_incumbent_is_the_one_to_beat() -> None:
    blocks = race_blocks({0: 0.0, 1: -0.2, 2: -0.4, 3: -0.3}, 10, 0.01)
    decisions = run(blocks, 1, 2, 3, incumbent=2)
    assert decisions[2].action is Action.KEEP
    assert decisions[2].against == 0
    assert decisions[2].verdict.outcome is Outcome.BETTER
    assert [decisions[t].action for t in (1, 3)] == [Action.PRUNE, Action.PRUNE]
    assert decisions[1].against == 2
    assert "than trial 2" in decisions[1].reason


def test_each_new_incumbent_raises_the_bar_for_futility() -> None:
    first = race_blocks({0: 0.0, 1: 0.3, 2: 0.0}, 5, 0.01)
    then = race_blocks({0: 0.0, 1: 0.3, 2: 0.0}, 5, 0.01, seed=1, incumbent=2)
    rules = RaceRules(delta=0.02, max_blocks=30, floor=2.0)
    once = run(first, 1, rules=rules)[1]
    again = run(first + then, 1, 2, incumbent=2, rules=rules)[1]
    back = run(first + then, 1, 2, incumbent=0, rules=rules)[1]
    new = run(then, 1, 2, incumbent=2, rules=rules)[1]
    assert once.verdict.threshold == threshold(futility_alpha(0.05, 1), 30)
    assert again.verdict.threshold == threshold(futility_alpha(0.05, 2), 30)
    assert back.verdict.threshold == again.verdict.threshold
    assert new.verdict.threshold == once.verdict.threshold


def test_futility_levels_sum_to_alpha() -> None:
    total = sum(futility_alpha(0.05, j) for j in range(1, 20_000))
    assert total == pytest.approx(0.05, rel=1e-4)
    assert total < 0.05
    with pytest.raises(ValueError, match="at least 1"):
        futility_alpha(0.05, 0)


def test_a_gain_bought_with_a_component_is_dropped() -> None:
    rng = np.random.default_rng(1)
    blocks = tuple(
        RaceBlock(
            {
                0: tuple(np.exp(rng.normal(0.0, 0.01, 2)).tolist()),
                1: tuple(np.exp(rng.normal((-0.5, 0.2), 0.01)).tolist()),
            }
        )
        for _ in range(6)
    )
    decision = run(blocks, 1)[1]
    assert decision.action is Action.PRUNE
    assert decision.verdict.outcome is Outcome.BETTER
    assert decision.reason.startswith("component 2 is 2")
    assert "more than the floor of 5.0%" in decision.reason
    as_incumbent = run(blocks, 1, incumbent=1)[1]
    assert as_incumbent.action is Action.PRUNE
    assert as_incumbent.against == 0


def test_components_are_called_by_their_names() -> None:
    blocks = tuple(RaceBlock({0: (1.0, 1.0), 1: (0.6, 1.2 + 0.01 * i)}) for i in range(6))
    names = ("small-read", "large-write")
    (decision,) = decide(RaceState(blocks, frozenset({1}), 0, (0.5, 0.5), names), RULES)
    assert decision.action is Action.PRUNE
    assert decision.reason.startswith(
        "large-write is 22.5% slower than baseline, more than the floor"
    )
    plain = run(blocks, 1)[1]
    assert plain.reason == decision.reason.replace("large-write", "component 2")
    with pytest.raises(ValueError, match="need 2 component names or none, got 1"):
        decide(RaceState(blocks, frozenset({1}), 0, (0.5, 0.5), names[:1]), RULES)


def cut_short(blocks: tuple[RaceBlock, ...], trial: int, at: int) -> tuple[RaceBlock, ...]:
    """Return the blocks with the trial's run in block `at` cut short."""
    changed = replace(blocks[at], censored=frozenset({trial}))
    return (*blocks[:at], changed, *blocks[at + 1 :])


def test_a_run_cut_short_never_promotes() -> None:
    blocks = race_blocks({0: 0.0, 1: -0.2, 2: -0.2}, 8, 0.01)
    decisions = run(cut_short(blocks, 1, 3), 1, 2)
    assert run(blocks, 1)[1].action is Action.PROMOTE
    assert decisions[1].action is Action.KEEP
    assert decisions[1].reason.startswith("undecided, and a run was cut short: ")
    assert decisions[2].action is Action.PROMOTE


def test_a_run_cut_short_never_shows_equivalence() -> None:
    blocks = race_blocks({0: 0.0, 1: 0.0}, 20, 0.01)
    assert run(blocks, 1)[1].action is Action.EQUIVALENT
    decision = run(cut_short(blocks, 1, 0), 1)[1]
    assert decision.action is Action.PRUNE
    assert decision.reason.startswith("not 2.0% faster than baseline: ")


def test_runs_cut_short_prune() -> None:
    """A far slower trial, with every run cut short at 1.5 times the baseline's time."""
    blocks = race_blocks({0: 0.0, 1: math.log(1.5)}, 5, 0.02)
    for index in range(5):
        blocks = cut_short(blocks, 1, index)
    assert run(blocks, 1, rules=RaceRules(delta=0.02, max_blocks=30, floor=2.0))[1].action is (
        Action.PRUNE
    )


def test_runs_of_the_baseline_and_the_incumbent_cannot_be_cut_short() -> None:
    blocks = race_blocks({0: 0.0, 1: -0.2, 2: 0.0}, 4, 0.01)
    with pytest.raises(ValueError, match="a run of baseline was cut short"):
        run(cut_short(blocks, 0, 1), 1)
    with pytest.raises(ValueError, match="a run of trial 1 was cut short"):
        run(cut_short(blocks, 1, 1), 1, 2, incumbent=1)


def test_a_trial_that_breaks_the_floor_does_not_prevent_a_promotion() -> None:
    blocks = tuple(
        RaceBlock({0: (1.0, 1.0), 1: (0.2, 1.3), 2: (0.8, 0.8 + 0.01 * i)}) for i in range(6)
    )
    decisions = run(blocks, 1, 2)
    assert [decisions[t].action for t in (1, 2)] == [Action.PRUNE, Action.PROMOTE]


def test_the_horizon_ends_a_trial() -> None:
    short = RaceRules(delta=0.02, max_blocks=6)
    blocks = race_blocks({0: 0.0, 1: -0.02}, 6, 0.1)
    assert run(blocks[:5], 1, rules=short)[1].action is Action.KEEP
    last = run(blocks, 1, rules=short)[1]
    assert last.action is Action.PRUNE
    assert last.verdict.outcome is Outcome.UNDECIDED
    assert last.reason.startswith("undecided after the 6 blocks allowed: ")


def test_past_the_horizon_ville_applies() -> None:
    blocks = race_blocks({0: 0.0, 1: -0.02}, 7, 0.1)
    decision = run(blocks, 1, rules=RaceRules(delta=0.02, max_blocks=6))[1]
    assert decision.verdict.threshold == pytest.approx(100.0)
    d = [math.log(b.times_s[1][0] / b.times_s[0][0]) for b in blocks]
    ville = confidence_interval(d, threshold=40.0)
    assert decision.verdict.interval.lower == pytest.approx(ville.lower)
    assert decision.verdict.interval.upper == pytest.approx(ville.upper)
    assert decision.action is Action.PRUNE


def test_only_common_blocks_count() -> None:
    early = race_blocks({0: 0.0, 1: 0.0}, 4, 0.05)
    late = race_blocks({0: 0.0, 1: 0.0, 2: 0.0}, 3, 0.05, seed=1)
    assert run(early + late, 1, 2)[2].verdict.n == 3
    assert run(early + late, 1, 2, incumbent=2)[1].verdict.n == 3
    assert run(early + late, 1, 2)[1].verdict.n == 7


@pytest.mark.slow
@given(st.permutations(range(8)), st.integers(0, 20))
def test_order_of_blocks_does_not_matter(order: list[int], seed: int) -> None:
    effects = {0: 0.0, 1: -0.05, 2: 0.05, 3: 0.0}
    blocks = race_blocks(effects, 8, 0.03, seed=seed, components=3)
    plain = run(blocks, 1, 2, 3)
    mixed = run(tuple(blocks[i] for i in order), 1, 2, 3)
    assert run(blocks, 1, 2, 3) == plain
    for trial in (1, 2, 3):
        assert mixed[trial].action is plain[trial].action
        assert mixed[trial].verdict.e_value == pytest.approx(plain[trial].verdict.e_value)


def test_other_trials_do_not_matter_to_a_comparison() -> None:
    blocks = race_blocks({t: 0.01 * t for t in range(40)}, 9, 0.03, components=2)
    together = run(blocks, *range(40))
    for trial in (5, 39):
        assert run(blocks, trial)[trial] == together[trial]


@pytest.mark.slow
def test_delta_better_trials_survive() -> None:
    """600 races of a trial exactly delta faster, with every look up to block 10.

    Pruned in at most .0304, the first incumbent's share of alpha = .05, plus three standard
    deviations of .007.
    """
    rules = RaceRules(delta=0.02, max_blocks=11, floor=2.0)
    pruned = 0
    for seed in range(600):
        blocks = race_blocks({0: 0.0, 1: -math.log(1.02)}, 10, 0.03, seed=seed)
        looks = (run(blocks[:n], 1, rules=rules)[1].action for n in range(3, 11))
        pruned += any(action in (Action.PRUNE, Action.EQUIVALENT) for action in looks)
    assert 0 < pruned / 600 < 0.0304 + 3 * 0.007


def test_slow_trials_are_dropped_early() -> None:
    """Power: a trial 10% slower at sd(D) = 7% is mostly dropped within 12 blocks."""
    dropped = sum(
        run(race_blocks({0: 0.0, 1: 0.1}, 12, 0.05, seed=seed), 1)[1].action is Action.PRUNE
        for seed in range(100)
    )
    assert dropped > 80


def test_empty_race() -> None:
    assert run((), rules=RULES) == {}
    assert run((), 1)[1].action is Action.KEEP


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (RaceBlock({1: (1.0,)}), "block 0 has no baseline"),
        (RaceBlock({0: (1.0,), 1: (1.0, 2.0)}), "trial 1: need 1 component times, got 2"),
        (RaceBlock({0: (1.0,), 1: (0.0,)}), "trial 1: times must be finite"),
        (RaceBlock({0: (math.nan,), 1: (1.0,)}), "trial 0: times must be finite"),
        (RaceBlock({0: (math.inf,), 1: (1.0,)}), "trial 0: times must be finite"),
    ],
)
def test_bad_blocks_are_named(block: RaceBlock, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decide(RaceState((block,), frozenset({1}), 0, (1.0,)), RULES)


def test_bad_rules_and_state() -> None:
    with pytest.raises(ValueError, match="min_blocks"):
        RaceRules(delta=0.02, max_blocks=2)
    with pytest.raises(ValueError, match="margin"):
        RaceRules(delta=0.0, max_blocks=10)
    with pytest.raises(ValueError, match="alpha"):
        RaceRules(delta=0.02, max_blocks=10, alpha_promote=0.0)
    with pytest.raises(ValueError, match="incumbent 5"):
        run((), 1, incumbent=5)
