"""The table of scores: its content, which does not depend on how the blocks arrive."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plan.histories import COMPONENTS, History, planner, rules
from tests.unit.store.records import DISTURBED
from tuner.judge.score import log_scores
from tuner.model import BASELINE, COVARIATES, Block, BlockKind
from tuner.plan.certifying import guards
from tuner.plan.scores import ScoreTable, block_times
from tuner.results.reference_comparison import estimate, estimates, estimates_along
from tuner.states import BlockState

WEIGHTS = (0.3, 0.7)


def history(seed: int, fails: dict[int, int], voids: frozenset[int]) -> History:
    limits = rules(seed=seed, weights=WEIGHTS, budget_s=120.0)
    campaign = History(limits, {2: 0.9, 5: 0.8}, 0.01, fails, voids)
    campaign.run()
    return campaign


def content(table: ScoreTable) -> object:
    """The entire content of a table."""
    return (
        table.ended_blocks,
        table.scored,
        table.seconds,
        table.measurements,
        table.newest,
        {kind: table.pairs(kind) for kind in BlockKind},
        table.means(),
        [table.logs(trial).tobytes() for trial in table.means()],
        table.observations(list(BlockKind)).covariates.tobytes(),
        guards(table),
    )


SOME_FAIL = st.dictionaries(st.integers(1, 9), st.integers(1, 25), max_size=3)
SOME_VOID = st.frozensets(st.integers(1, 25), max_size=4)


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(0, 3), SOME_FAIL, SOME_VOID)
def test_it_does_not_matter_how_the_blocks_come(
    seed: int, fails: dict[int, int], voids: frozenset[int]
) -> None:
    blocks = [disturbed(block, frozenset({3})) for block in history(seed, fails, voids).blocks]
    whole = ScoreTable.of(blocks, COMPONENTS, WEIGHTS)
    one_by_one = ScoreTable(COMPONENTS, WEIGHTS)
    for block in blocks:
        one_by_one.extend([block])
        one_by_one.means()
    lean = ScoreTable.of([block_times(b, COMPONENTS) for b in blocks], COMPONENTS, WEIGHTS)
    assert content(one_by_one) == content(whole) == content(lean)


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(0, 3), SOME_FAIL, SOME_VOID)
def test_a_planner_made_anew_plans_the_same_from_stored_rows(
    seed: int, fails: dict[int, int], voids: frozenset[int]
) -> None:
    campaign = history(seed, fails, voids)
    rows = [block_times(block, COMPONENTS) for block in campaign.blocks]
    again, then = planner(campaign.rules).plan(campaign.trials, rows), campaign.plans[-1]
    assert (again.step, again.endings, again.answer) == (then.step, then.endings, then.answer)
    assert (again.guards, again.round, again.phase) == (then.guards, then.round, then.phase)


@pytest.mark.slow
def test_pairs_are_differences_to_the_baseline_of_the_same_block() -> None:
    blocks = history(1, {}, frozenset({2})).blocks
    table = ScoreTable.of(blocks, COMPONENTS, WEIGHTS)
    expected: list[float] = []
    for block in blocks:
        times = block_times(block, COMPONENTS).times_s
        search = block.kind is BlockKind.SEARCH and block.state is BlockState.COMPLETE
        if search and 2 in times:
            of_two, of_baseline = log_scores([times[2], times[BASELINE]], WEIGHTS).tolist()
            expected.append(of_two - of_baseline)
    assert table.pairs()[2] == pytest.approx(expected)
    assert table.means()[2] == pytest.approx(fmean(expected))
    assert len(table.blocks_of(2)) == len(expected)


@pytest.mark.slow
def test_logs_are_of_the_blocks_that_measured_the_trial() -> None:
    blocks = history(1, {}, frozenset()).blocks
    table = ScoreTable.of(blocks, COMPONENTS, WEIGHTS)
    numbers = table.blocks_of(2)
    logs = table.logs(2)
    assert logs.shape == (2, len(numbers), len(COMPONENTS))
    by_number = {scored.block.number: scored.block.times_s for scored in table.scored}
    for column, number in enumerate(numbers):
        for row, trial in enumerate((BASELINE, 2)):
            expected = [math.log(t) for t in by_number[number][trial]]
            assert logs[row, column].tolist() == pytest.approx(expected)
    assert len(numbers) > 2


def disturbed(block: Block, unknown: frozenset[int] = frozenset()) -> Block:
    """A block whose arms have a load equal to their trial's number plus a tenth of the block's
    number.
    """
    measurements = tuple(
        m
        if m.trial in unknown
        else replace(
            m,
            diagnostics={
                **DISTURBED,
                "host.busy_s": 5.0 + 10.0 * (m.trial + block.number / 10),
                "host.steal_s": 0.0,
            },
        )
        for m in block.measurements
    )
    return replace(block, measurements=measurements)


def test_covariates_are_differences_to_the_baseline_of_the_same_block() -> None:
    blocks = [disturbed(b) for b in history(1, {}, frozenset({2})).blocks]
    table = ScoreTable.of(blocks, COMPONENTS, WEIGHTS)
    observations = table.observations([BlockKind.SEARCH])
    assert observations.trial.size == sum(len(values) for values in table.pairs().values())
    others, stolen = COVARIATES.index("others_server"), COVARIATES.index("stolen_server")
    assert observations.covariates[:, others] == pytest.approx(observations.trial)
    assert np.array_equal(observations.covariates[:, stolen], np.zeros(observations.trial.size))
    assert np.isnan(observations.covariates[:, COVARIATES.index("others_clients")]).all()
    for trial, place, logs in zip(
        observations.trial, observations.block, observations.logs, strict=True
    ):
        times = table.scored[place].block.times_s
        expected = np.log(times[trial]) - np.log(times[BASELINE])
        assert logs == pytest.approx(expected)
    two = observations.trial == 2
    assert observations.logs[two] @ np.array(WEIGHTS) == pytest.approx(table.pairs()[2])
    fresh = table.observations([BlockKind.CERTIFY])
    kinds = {table.scored[place].block.kind for place in fresh.block}
    assert kinds == {BlockKind.CERTIFY}


@pytest.mark.slow
def test_a_difference_needs_the_covariates_of_both() -> None:
    whole = history(1, {}, frozenset()).blocks
    blocks = [disturbed(b, frozenset({BASELINE} if b.number % 2 else {1})) for b in whole]
    table = ScoreTable.of(blocks, COMPONENTS, WEIGHTS)
    observations = table.observations([BlockKind.SEARCH])
    odd = np.array([table.scored[place].block.number % 2 == 1 for place in observations.block])
    complete = ~np.isnan(observations.covariates[:, 0])
    assert np.array_equal(complete, ~odd & (observations.trial != 1))
    assert complete.any()
    assert np.isnan(
        ScoreTable.of(whole, COMPONENTS, WEIGHTS).observations(list(BlockKind)).covariates
    ).all()
    assert ScoreTable(COMPONENTS, WEIGHTS).observations(list(BlockKind)).logs.shape == (
        0,
        2,
    )


@pytest.mark.slow
def test_blocks_from_a_running_one_on_are_ignored() -> None:
    blocks = history(1, {}, frozenset()).blocks
    running = Block(2, BlockKind.SEARCH, 1, (BASELINE, 1), BlockState.RUNNING)
    table = ScoreTable.of([blocks[0], running, *blocks[2:]], COMPONENTS, WEIGHTS)
    assert [block.number for block in table.ended_blocks] == [1]
    table.extend(blocks[1:])
    assert content(table) == content(ScoreTable.of(blocks, COMPONENTS, WEIGHTS))


@pytest.mark.slow
def test_without_times_the_scores_are_the_same() -> None:
    blocks = history(1, {}, frozenset()).blocks
    lean = ScoreTable(COMPONENTS, WEIGHTS, keep_times=False)
    lean.extend(blocks)
    whole = ScoreTable.of(blocks, COMPONENTS, WEIGHTS)
    assert not any(block.times_s for block in lean.ended_blocks)
    assert [one.scores for one in lean.scored] == [one.scores for one in whole.scored]
    assert lean.measurements == whole.measurements


def test_estimates_of_many_are_those_of_each() -> None:
    random = np.random.default_rng(3)
    several = [random.normal(0.02, 0.1, n).tolist() for n in (1, 2, 3, 12, 12, 40, 3)]
    assert estimates(several, 12) == [estimate(one, 12) for one in several]
    assert estimates([], 12) == []


def test_estimates_along_the_way_are_those_of_each_beginning() -> None:
    values = np.random.default_rng(4).normal(-0.05, 0.1, 60).tolist()
    counts = [1, 2, 3, 12, 13, 60]
    for count, result in zip(counts, estimates_along(values, counts, 12), strict=True):
        expected = estimate(values[:count], 12)
        assert result.ratio == pytest.approx(expected.ratio)
        assert result.lower == pytest.approx(expected.lower)
        assert result.upper == pytest.approx(expected.upper)
