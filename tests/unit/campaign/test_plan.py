"""The plan: races, budgets, failures and certification, all from what was measured."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.campaign.histories import History, rules, trial
from tuner.campaign.plan import MAX_VOID_IN_A_ROW, plan
from tuner.campaign.steps import Finish, Halt, Phase, Propose, RunBlock
from tuner.judge.certify import CertificateOutcome
from tuner.judge.race import Action
from tuner.model import BASELINE, BlockKind
from tuner.states import BlockState, TrialState


def certified(step: object) -> int | None:
    assert isinstance(step, Finish)
    if step.certificate is None or step.certificate.outcome is not CertificateOutcome.CERTIFIED:
        return None
    return step.finalist


def search_orders(history: History) -> list[tuple[int, ...]]:
    return [b.order for b in history.blocks if b.kind is BlockKind.SEARCH]


def fresh_orders(history: History) -> list[tuple[int, ...]]:
    return [b.order for b in history.blocks if b.kind is BlockKind.CERTIFY]


def test_begins_with_proposals_for_the_first_race() -> None:
    found = plan([trial(BASELINE, 0)], [], rules())
    assert found.step == Propose(1, 3)
    assert found.phase is Phase.SEARCH


def test_every_block_has_the_baseline_and_each_live_trial_once() -> None:
    history = History(rules(), {2: 0.9})
    history.run()
    assert history.blocks
    for block in history.blocks:
        assert BASELINE in block.order
        assert len(set(block.order)) == len(block.order)
    assert set(search_orders(history)[0]) == {0, 1, 2, 3}


def test_order_is_random_but_follows_from_the_seed() -> None:
    orders: dict[int, list[list[tuple[int, ...]]]] = {}
    for seed in (1, 1, 2):
        history = History(rules(seed=seed, max_trials=3), noise=0.05)
        history.run()
        orders.setdefault(seed, []).append(search_orders(history))
    assert orders[1][0] == orders[1][1]
    assert orders[1][0] != orders[2][0]
    first = [order[0] for order in orders[1][0] if len(order) == 4]
    assert len(set(first)) > 1


def test_a_slow_trial_is_dropped_and_measured_no_more() -> None:
    history = History(rules(max_trials=3), {1: 1.3})
    history.run()
    assert history.trials[1].state is TrialState.PRUNED
    assert max(n for n, order in enumerate(search_orders(history)) if 1 in order) <= 4
    assert len(search_orders(history)) >= 3


def test_the_winner_is_promoted_certified_on_fresh_blocks_and_kept_in_every_race() -> None:
    history = History(rules(), {2: 0.85})
    assert certified(history.run()) == 2
    promotion = next(n for n, p in enumerate(history.plans) if p.incumbent == 2)
    later = [p.step for p in history.plans[promotion:] if isinstance(p.step, RunBlock)]
    assert all(2 in step.order for step in later)
    assert all(p.incumbent == 2 for p in history.plans[promotion:])
    assert set(map(frozenset, fresh_orders(history))) == {frozenset({0, 2})}


def test_a_better_one_takes_the_incumbents_place() -> None:
    history = History(rules(), {1: 0.9, 5: 0.7})
    assert certified(history.run()) == 5
    assert history.trials[1].state is TrialState.COMPLETE
    ending = history.plans[-1].endings[1]
    assert ending.reason.startswith("trial 5 took its place")
    after = next(n for n, p in enumerate(history.plans) if p.incumbent == 5)
    steps = [p.step for p in history.plans[after:] if isinstance(p.step, RunBlock)]
    assert steps
    assert not any(1 in step.order for step in steps)


def test_nothing_better_ends_without_a_finalist() -> None:
    history = History(rules())
    step = history.run()
    assert step == Finish(None, None)
    assert fresh_orders(history) == []
    assert len(history.trials) == 10


def test_max_trials_may_be_no_multiple_of_a_race() -> None:
    history = History(rules(max_trials=4))
    history.run()
    assert [t.race for t in history.trials] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize("when", [1, 2, 6])
def test_a_failed_trial_leaves_the_race_and_the_others_go_on(when: int) -> None:
    history = History(rules(max_trials=3), {1: 0.9, 2: 0.9}, fails={1: when})
    assert certified(history.run()) == 2 if when <= 2 else True
    for block in history.blocks:
        assert (1 in block.order) <= (block.number <= when)


def test_all_trials_of_a_race_failing_begins_the_next_race() -> None:
    history = History(rules(), {4: 0.8}, fails={1: 1, 2: 1, 3: 1})
    assert certified(history.run()) == 4


def test_a_failed_incumbent_hands_back_to_the_baseline() -> None:
    leading = History(rules(max_trials=6), {1: 0.85})
    leading.run()
    promoted = next(p for p in leading.plans if p.incumbent == 1)
    assert isinstance(promoted.step, RunBlock | Propose)
    blocks_then = next(n for n, p in enumerate(leading.plans) if p is promoted)
    count = sum(isinstance(p.step, RunBlock) for p in leading.plans[:blocks_then])
    history = History(rules(max_trials=6), {1: 0.85}, fails={1: count + 1})
    step = history.run()
    assert history.plans[-1].incumbent == BASELINE
    assert isinstance(step, Finish)
    assert step.finalist != 1
    assert not any(1 in b.order for b in history.blocks[count + 1 :])


def test_what_was_decided_before_a_trial_failed_stays_decided() -> None:
    """Trials dropped for not beating an incumbent do not come back when that one fails."""
    steady = History(rules(max_trials=6), {1: 0.8})
    steady.run()
    last = max(b.number for b in steady.blocks if b.kind is BlockKind.SEARCH)
    ended = {n for p in steady.plans for n in p.endings}
    assert ended
    history = History(rules(max_trials=6), {1: 0.8}, fails={1: last})
    history.run()
    for earlier, later in zip(history.plans, history.plans[1:], strict=False):
        assert earlier.endings.items() <= later.endings.items()


def test_a_finalist_that_fails_is_not_recommended() -> None:
    whole = History(rules(max_trials=3), {1: 0.9})
    whole.run()
    first_fresh = next(b.number for b in whole.blocks if b.kind is BlockKind.CERTIFY)
    history = History(rules(max_trials=3), {1: 0.9}, fails={1: first_fresh + 1})
    assert history.run() == Finish(None, None)


def test_the_finalist_stays_the_same_whatever_the_fresh_blocks_show() -> None:
    history = History(rules(max_trials=3), {1: 0.9, 2: 0.95})
    history.run(until=lambda s: isinstance(s, RunBlock) and s.kind is BlockKind.CERTIFY)
    finalist = set(history.plans[-1].live)
    history.ratios = {1: 1.2, 2: 0.7}
    step = history.run()
    assert isinstance(step, Finish)
    assert {step.finalist} == finalist
    assert certified(step) is None
    assert all(set(order) == finalist | {BASELINE} for order in fresh_orders(history))


def test_certification_looks_at_no_search_block() -> None:
    history = History(rules(max_trials=3), {1: 0.9})
    history.run(until=lambda s: isinstance(s, RunBlock) and s.kind is BlockKind.CERTIFY)
    assert history.plans[-1].certificate is not None
    assert history.plans[-1].certificate.verdict.n == 0
    step = history.run()
    assert isinstance(step, Finish)
    assert step.certificate is not None
    assert step.certificate.verdict.n == len(fresh_orders(history))
    altered = [
        replace(b, measurements=b.measurements[::-1]) if b.kind is BlockKind.SEARCH else b
        for b in history.blocks
    ]
    again = plan(history.trials, altered, history.rules)
    assert again.certificate == step.certificate


def test_certification_stops_at_its_last_block() -> None:
    history = History(rules(max_trials=3, certify_blocks=4), {1: 0.94}, noise=0.03)
    step = history.run()
    assert isinstance(step, Finish)
    assert len(fresh_orders(history)) <= 4


def test_void_blocks_are_in_no_test_but_cost() -> None:
    clean = History(rules(max_trials=3), {1: 0.9})
    dirty = History(rules(max_trials=3), {1: 0.9}, voids=frozenset({2, 3}))
    assert certified(clean.run()) == certified(dirty.run()) == 1
    for found in dirty.plans[-1].decisions:
        complete = [b for b in dirty.blocks if b.state is BlockState.COMPLETE]
        assert found.verdict.n <= len(complete)
    numbers = [b.number for b in dirty.blocks]
    assert numbers == list(range(1, len(numbers) + 1))


def test_too_many_void_blocks_in_a_row_halt() -> None:
    history = History(rules(), voids=frozenset(range(5, 50)))
    step = history.run()
    assert isinstance(step, Halt)
    assert str(MAX_VOID_IN_A_ROW) in step.reason
    assert len(history.blocks) == 4 + MAX_VOID_IN_A_ROW


def test_void_blocks_of_earlier_runs_do_not_halt() -> None:
    history = History(rules(), voids=frozenset(range(5, 50)))
    assert isinstance(history.run(), Halt)
    again = plan(history.trials, history.blocks, history.rules, earlier_blocks=len(history.blocks))
    assert isinstance(again.step, RunBlock)


def test_separate_void_blocks_do_not_halt() -> None:
    history = History(rules(max_trials=6), {1: 0.9}, voids=frozenset({1, 2, 3, 5, 6, 7, 9}))
    assert certified(history.run()) == 1


@pytest.mark.parametrize("budget_s", [1.0, 30.0, 60.0, 150.0, 400.0])
def test_measuring_time_is_kept_to(budget_s: float) -> None:
    history = History(rules(budget_s=budget_s, max_trials=None), {2: 0.9}, noise=0.02)
    history.run()
    spent_s = sum(b.duration_s for b in history.blocks)
    # The pace is known only after the first block, and three fresh blocks are always afforded.
    assert spent_s <= max(budget_s, 4 * 2.0) + 3 * 2 * 2.0


@pytest.mark.parametrize("budget", [8, 20, 40, 100])
def test_measurements_are_kept_to(budget: int) -> None:
    history = History(rules(budget_measurements=budget, max_trials=None), {2: 0.9})
    history.run()
    assert sum(len(b.measurements) for b in history.blocks) <= budget + 6


def test_a_share_of_the_budget_is_left_for_certification() -> None:
    limited = rules(budget_measurements=100, max_trials=None, certify_share=0.5)
    history = History(limited, {1: 0.9}, noise=0.02)
    assert certified(history.run()) == 1
    searched = sum(len(b.measurements) for b in history.blocks if b.kind is BlockKind.SEARCH)
    assert searched <= 50 + 5


def test_no_measurement_is_made_on_a_budget_that_allows_no_trial() -> None:
    history = History(rules(budget_measurements=8))
    assert history.run() == Finish(None, None)
    assert history.blocks == []


def test_a_small_budget_is_for_a_smaller_race() -> None:
    counts = []
    for budget in range(8, 60):
        step = plan([trial(BASELINE, 0)], [], rules(budget_measurements=budget)).step
        counts.append(step.count if isinstance(step, Propose) else 0)
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_blocks_that_cost_no_time_at_all_end_too() -> None:
    history = History(rules(), arm_s=0.0)
    assert isinstance(history.run(), Finish)


ratios = st.dictionaries(
    st.integers(1, 6), st.sampled_from([0.8, 0.9, 0.97, 1.0, 1.05, 1.3]), max_size=6
)


@settings(max_examples=15)
@given(
    ratios=ratios,
    noise=st.sampled_from([0.0005, 0.01, 0.04]),
    fails=st.dictionaries(st.integers(1, 6), st.integers(1, 12), max_size=3),
    voids=st.frozensets(st.integers(1, 15), max_size=4),
    seed=st.integers(0, 3),
)
def test_every_prefix_planned_anew_gives_the_decisions_that_it_gave(
    ratios: dict[int, float],
    noise: float,
    fails: dict[int, int],
    voids: frozenset[int],
    seed: int,
) -> None:
    history = History(rules(max_trials=6, seed=seed), ratios, noise, fails, voids)
    history.run()
    steps = iter(history.plans)
    decided = [next(p for p in steps if isinstance(p.step, RunBlock)) for _ in history.blocks]
    for number, then in enumerate(decided):
        began = max((t.number for t in history.trials if t.race <= then.race), default=0)
        failed_later = {t for t, b in fails.items() if b > number}
        trials = [
            replace(t, state=TrialState.RUNNING) if t.number in failed_later else t
            for t in history.trials[: began + 1]
        ]
        again = plan(trials, history.blocks[:number], history.rules)
        assert again.step == then.step
        assert again.incumbent == then.incumbent
        assert again.endings == then.endings
        assert again.decisions == then.decisions
    # What has ended has ended, and nobody is promoted who was dropped.
    for earlier, later in zip(history.plans, history.plans[1:], strict=False):
        assert earlier.endings.items() <= later.endings.items()
        assert later.incumbent not in later.endings
        promoted = {d.trial for d in later.decisions if d.action is Action.PROMOTE}
        assert not promoted & earlier.endings.keys()


def test_a_long_campaign_is_planned_in_reasonable_time() -> None:
    """The cost of a step must not explode with the length of the history."""
    history = History(rules(max_trials=20, trials_per_race=5), {7: 0.95}, noise=0.01)
    history.run()
    long = History(rules(max_trials=80, trials_per_race=5), {7: 0.95}, noise=0.01)
    long.run()

    def cost_s(one: History) -> float:
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            plan(one.trials, one.blocks, one.rules)
            best = min(best, time.process_time() - began)
        return best

    # Four times the trials: quadratic work would be sixteen times.
    assert cost_s(long) <= 40 * cost_s(history)


def test_shuffled_orders_are_uniform() -> None:
    """Each arm is as often first as any other."""
    firsts = [0, 0, 0, 0]
    for seed in range(400):
        numbers = [BASELINE, 1, 2, 3]
        found = plan([trial(0, 0), *(trial(n, 1) for n in (1, 2, 3))], [], rules(seed=seed))
        assert isinstance(found.step, RunBlock)
        assert sorted(found.step.order) == numbers
        firsts[found.step.order[0]] += 1
    assert min(firsts) > 60
