"""The plan: search, budgets, failures and certification, all derived from the measurements."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plan.histories import History, planner, rules, trial
from tests.unit.plan.means_guide import configuration
from tuner.judge.certify import CertificateOutcome
from tuner.judge.race import Action
from tuner.model import BASELINE, BlockKind, Trial
from tuner.plan.halting import MAX_VOID_IN_A_ROW
from tuner.plan.steps import Ending, Explore, Finish, Halt, Phase, RunBlock, Step
from tuner.propose.proposer import Proposal
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


def test_begins_with_a_block_of_new_configurations() -> None:
    plan = planner(rules()).plan([trial(BASELINE, 0)], [])
    assert isinstance(plan.step, Explore)
    assert (plan.step.round, plan.step.number, plan.step.kind) == (1, 1, BlockKind.SEARCH)
    ((*picks,),) = plan.step.groups
    assert [p.configuration for p in picks if isinstance(p, Proposal)] == [
        configuration(n) for n in (1, 2, 3)
    ]
    assert plan.phase is Phase.SEARCH


@pytest.mark.slow
def test_every_block_has_the_baseline_and_each_arm_once() -> None:
    history = History(rules(), {2: 0.9})
    history.run()
    assert history.blocks
    for block in history.blocks:
        assert BASELINE in block.order
        assert len(set(block.order)) == len(block.order) <= 1 + 3
    assert set(search_orders(history)[0]) == {0, 1, 2, 3}


@pytest.mark.slow
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


def test_the_winner_is_promoted_and_certified_on_fresh_blocks() -> None:
    history = History(rules(), {2: 0.85})
    assert certified(history.run()) == 2
    assert any(p.incumbent == 2 for p in history.plans)
    assert set(map(frozenset, fresh_orders(history))) == {frozenset({0, 2})}


@pytest.mark.slow
def test_a_trial_that_is_set_aside_may_come_back() -> None:
    """Of the undecided trials, those that look best are measured again."""
    history = History(rules(), {1: 0.97, 2: 1.02}, noise=0.03)
    history.run()
    places = [n for n, order in enumerate(search_orders(history)) if 2 in order]
    assert len(places) < places[-1] - places[0] + 1


def test_nothing_better_ends_without_a_finalist() -> None:
    history = History(rules())
    step = history.run()
    assert step == Finish(None, None)
    assert fresh_orders(history) == []
    assert len(history.trials) == 10


def test_no_more_trials_than_asked_for() -> None:
    history = History(rules(max_trials=4))
    history.run()
    assert len(history.trials) == 1 + 4


@pytest.mark.parametrize("when", [1, 2, 6])
def test_a_failed_trial_is_measured_no_more_and_the_others_go_on(when: int) -> None:
    history = History(rules(max_trials=3), {1: 0.9, 2: 0.9}, fails={1: when})
    assert certified(history.run()) == 2
    numbers = [b.number for b in history.blocks if 1 in b.order and b.number >= when]
    assert len(numbers) <= 1


def test_when_all_trials_fail_others_are_tried() -> None:
    history = History(rules(), {4: 0.8}, fails={1: 1, 2: 1, 3: 1})
    assert certified(history.run()) == 4


def test_a_failed_incumbent_hands_back_to_the_baseline() -> None:
    leading = History(rules(max_trials=6), {1: 0.85})
    leading.run()
    promoted = next(n for n, p in enumerate(leading.plans) if p.incumbent == 1)
    failing = next(b.number for b in leading.blocks[promoted:] if 1 in b.order)
    history = History(rules(max_trials=6), {1: 0.85}, fails={1: failing})
    step = history.run()
    assert history.plans[-1].incumbent == BASELINE
    assert certified(step) is None
    assert not any(1 in b.order for b in history.blocks[failing:])


@pytest.mark.slow
def test_what_was_decided_before_a_trial_failed_stays_decided() -> None:
    steady = History(rules(max_trials=6), {1: 0.8})
    steady.run()
    last = max(b.number for b in steady.blocks if b.kind is BlockKind.SEARCH)
    endings = {n for p in steady.plans for n in p.endings}
    assert endings
    history = History(rules(max_trials=6), {1: 0.8}, fails={1: last})
    history.run()
    for earlier, later in zip(history.plans, history.plans[1:], strict=False):
        assert earlier.endings.items() <= later.endings.items()


@pytest.mark.slow
def test_void_blocks_are_in_no_test_but_use_budget() -> None:
    clean = History(rules(max_trials=3), {1: 0.9})
    dirty = History(rules(max_trials=3), {1: 0.9}, voids=frozenset({2, 3}))
    assert certified(clean.run()) == certified(dirty.run()) == 1
    for decision in dirty.plans[-1].decisions:
        complete = [b for b in dirty.blocks if b.state is BlockState.COMPLETE]
        assert decision.verdict.n <= len(complete)
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
    earlier = len(history.blocks)
    again = planner(history.rules).plan(history.trials, history.blocks, earlier_blocks=earlier)
    assert isinstance(again.step, RunBlock)
    assert set(again.step.order) == set(history.blocks[-1].order)
    assert again.step.order != history.blocks[-1].order or again.step.number == earlier + 1


def test_separate_void_blocks_do_not_halt() -> None:
    history = History(rules(max_trials=6), {1: 0.9}, voids=frozenset({1, 2, 3, 5, 6, 7, 9}))
    assert certified(history.run()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("budget_s", [1.0, 30.0, 60.0, 150.0, 400.0])
def test_the_budget_of_measuring_time_is_respected(budget_s: float) -> None:
    history = History(rules(budget_s=budget_s, max_trials=None), {2: 0.9}, noise=0.02)
    history.run()
    spent_s = sum(b.duration_s for b in history.blocks)
    # The pace is known only after the first block, and three fresh blocks are always allowed.
    assert spent_s <= max(budget_s, 4 * 2.0) + 3 * 2 * 2.0


@pytest.mark.slow
@pytest.mark.parametrize("budget", [8, 20, 40, 100])
def test_the_budget_of_measurements_is_respected(budget: int) -> None:
    history = History(rules(budget_measurements=budget, max_trials=None), {2: 0.9})
    history.run()
    assert sum(len(b.measurements) for b in history.blocks) <= budget + 6


@pytest.mark.slow
def test_a_share_of_the_budget_is_left_for_certification() -> None:
    limited = rules(budget_measurements=100, max_trials=None, certify_share=0.5)
    history = History(limited, {1: 0.95}, noise=0.03)
    history.run()
    first = next(n for n, b in enumerate(history.blocks) if b.kind is BlockKind.CERTIFY)
    assert sum(len(b.measurements) for b in history.blocks[:first]) <= 100 - 2 * 5


def test_no_measurement_is_made_on_a_budget_that_allows_no_certificate() -> None:
    history = History(rules(budget_measurements=8))
    assert history.run() == Finish(None, None)
    assert history.blocks == []


def test_blocks_that_cost_no_time_at_all_end_too() -> None:
    history = History(rules(), arm_s=0.0)
    assert isinstance(history.run(), Finish)


def test_a_block_that_was_cut_off_is_measured_as_it_was_planned() -> None:
    def mixed(step: Step) -> bool:
        if not isinstance(step, Explore) or step.kind is not BlockKind.SEARCH:
            return False
        return len({isinstance(pick, int) for pick in step.groups[0]}) == 2

    history = History(rules(), {1: 0.97, 2: 1.02}, noise=0.03)
    history.run(until=mixed)
    step = history.plans[-1].step
    assert isinstance(step, Explore)
    block = history.begin(step)
    history.measure(block)
    cut_off = replace(history.blocks[-1], state=BlockState.VOID)
    again = planner(history.rules).plan(history.trials, [*history.blocks[:-1], cut_off])
    assert isinstance(again.step, RunBlock)
    assert (again.step.kind, again.step.round) == (block.kind, block.round)
    assert set(again.step.order) == set(block.order)


@pytest.mark.slow
def test_a_round_that_was_cut_off_before_its_first_block_is_planned_once_more() -> None:
    history = History(rules(max_trials=5), {1: 0.9}, noise=0.03)
    rounds = 0
    while isinstance(history.run(until=lambda step: isinstance(step, Explore)), Explore):
        then = history.plans[-1]
        assert isinstance(then.step, Explore)
        rounds += 1
        before = list(history.trials)
        history.begin(then.step)
        again = planner(history.rules).plan(history.trials, history.blocks)
        assert again.step == then.step
        assert again.endings == then.endings
        history.trials = before
        history.measure(history.begin(then.step))
    assert rounds > 5


def trial_after(
    of: Trial, endings: Mapping[int, Ending], failed_in: Mapping[int, int], blocks: int
) -> Trial:
    """Return a trial as it was stored after ``blocks`` blocks had ended."""
    if failed_in.get(of.number, blocks + 1) <= blocks:
        return replace(of, state=TrialState.FAILED)
    if of.number not in endings:
        return replace(of, state=TrialState.RUNNING)
    return replace(of, state=endings[of.number].state, reason=endings[of.number].reason)


ratios = st.dictionaries(
    st.integers(1, 6), st.sampled_from([0.8, 0.9, 0.97, 1.0, 1.05, 1.3]), max_size=6
)


@pytest.mark.slow
@settings(max_examples=8)
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
    limits = rules(max_trials=6, seed=seed, budget_measurements=60)
    history = History(limits, ratios, noise, fails, voids)
    history.run()
    # Every plan except the last led to a block; endings up to then were stored.
    endings: dict[int, Ending] = {}
    for number, then in enumerate(history.plans):
        blocks = history.blocks[:number]
        newest = max((b.round for b in blocks), default=0)
        trials = [
            trial_after(t, endings, history.failed_in, number)
            for t in history.trials
            if t.round <= newest
        ]
        again = planner(limits).plan(trials, blocks)
        assert again.step == then.step
        assert again.endings == then.endings
        assert again.answer == then.answer
        endings |= then.endings
    # Endings are final, and no dropped trial is promoted.
    for earlier, later in zip(history.plans, history.plans[1:], strict=False):
        assert earlier.endings.items() <= later.endings.items()
        assert later.incumbent not in later.endings
        promoted = {d.trial for d in later.decisions if d.action is Action.PROMOTE}
        assert not promoted & earlier.endings.keys()


@pytest.mark.slow
def test_a_long_campaign_is_planned_in_reasonable_time() -> None:
    """The cost of a step must not explode with the length of the history."""
    short = History(
        rules(budget_measurements=100, max_trials=None, arms=5, budget_s=1e6), {7: 0.95}, noise=0.01
    )
    short.run()
    long = History(
        rules(budget_s=1e6, budget_measurements=400, max_trials=None, arms=5), {7: 0.95}, noise=0.01
    )
    long.run()

    def cost_s(one: History) -> float:
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            one.planner().plan(one.trials, one.blocks)
            best = min(best, time.process_time() - began)
        return best

    # Four times the blocks: quadratic work would be sixteen times.
    assert cost_s(long) <= 40 * cost_s(short)


def test_shuffled_orders_are_uniform() -> None:
    """Each arm is as often first as any other."""
    firsts = [0, 0, 0, 0]
    for seed in range(400):
        block = RunBlock.shuffled(seed, 1, BlockKind.SEARCH, 1, (1, 2, 3))
        assert sorted(block.order) == [BASELINE, 1, 2, 3]
        firsts[block.order[0]] += 1
    assert min(firsts) > 60
