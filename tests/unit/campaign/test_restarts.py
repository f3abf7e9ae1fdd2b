"""Which parts every arm of a block restarts: a program may be faster or slower just after it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.campaign.campaigns import THREADS, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.plan.histories import History, rules
from tuner.model import BASELINE, BlockKind, Configuration, Trial, Value
from tuner.plan.steps import RunBlock
from tuner.records.named_comparison import Word
from tuner.results.named_comparison import stored_comparison
from tuner.states import BlockState, TrialState

BASE: Mapping[str, Value] = {THREADS: 12, "cache_manager.daemons": 4}
SERVER = {**BASE, THREADS: 20}
UNSET = {"cache_manager.daemons": 4}
CLIENT = {**BASE, "cache_manager.daemons": 12}
BOTH = {**SERVER, "cache_manager.daemons": 12}


def restarts(kind: BlockKind, *configurations: Mapping[str, Value]) -> set[str]:
    """What a block of the baseline and these trials restarts."""
    trials = {
        number: Trial(number, Configuration.of(values), 1, "test", TrialState.RUNNING)
        for number, values in enumerate([BASE, *configurations])
    }
    step = RunBlock.shuffled(1, 1, kind, 1, range(1, len(trials)))
    return set(step.restarts(trials))


def test_every_arm_restarts_what_any_arm_of_its_block_changes() -> None:
    certify = BlockKind.CERTIFY
    assert restarts(certify, SERVER, CLIENT) == {"fileserver", "cache_manager"}
    assert restarts(certify, SERVER, UNSET) == {"fileserver"}
    assert restarts(certify, BOTH, SERVER) == {"fileserver", "cache_manager"}
    assert restarts(certify, CLIENT, {**CLIENT, "cache_manager.daemons": 5}) == {"cache_manager"}


@pytest.mark.parametrize("only", [SERVER, CLIENT, BOTH])
def test_a_single_trial_and_the_baseline_are_restarted_equally_often_anyway(
    only: Mapping[str, Value],
) -> None:
    assert restarts(BlockKind.CERTIFY, only) == set()


def test_the_search_claims_nothing_and_saves_restarts() -> None:
    assert restarts(BlockKind.SEARCH, SERVER, CLIENT) == set()
    assert restarts(BlockKind.PILOT, BASE) == set()


@pytest.mark.slow
def test_blocks_of_several_finalists_restart_their_parts() -> None:
    """As planned, for as long as more than one of them is open."""
    history = History(rules(max_trials=3, finalists=2), {1: 0.9, 2: 0.905}, noise=0.02)
    history.run()
    trials = {trial.number: trial for trial in history.trials}
    steps = [plan.step for plan in history.plans if isinstance(plan.step, RunBlock)]
    certifying = [step for step in steps if step.kind is BlockKind.CERTIFY]
    assert {len(step.order) for step in certifying} >= {3}
    for step in certifying:
        parts = {name.partition(".")[0] for n in step.order for name, _ in trials[n].configuration}
        assert step.restarts(trials) == (parts if len(step.order) > 2 else set())
    assert not any(step.restarts(trials) for step in steps if step not in certifying)


#: None of these settings has an effect.
INERT = {
    "server": {"fileserver": {"threads": 20}},
    "client": {"cache_manager": {"daemons": 5}},
    "other": {"cache_manager": {"daemons": 12}},
}
SEEDS = range(12)


@pytest.mark.slow
@pytest.mark.parametrize("after_restart", [-0.05, 0.05])
def test_a_server_that_was_just_started_is_no_effect_of_a_setting(
    begin: Begin, after_restart: float
) -> None:
    """Without the restarts, nearly all of these comparisons claim one of the server's setting."""
    claims = 0
    for seed in SEEDS:
        world = {"noise": 0.014, "seed": seed, "after_restart": {"fileserver": after_restart}}
        campaign = begin(
            spec(
                seed=seed,
                first=(),
                compare=INERT,
                testbed={"simulated": world},
                certification={"blocks": 20},
            )
        )
        campaign.run()
        comparison = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
        assert comparison is not None
        claims += any(row.whole.word in (Word.FASTER, Word.SLOWER) for row in comparison.rows)
        for block in campaign.blocks:
            assert block.state is BlockState.COMPLETE
            if len(block.order) > 2:
                parts = ["fileserver"] if any(n == 1 for n in block.order) else []
                parts += ["cache_manager"] if any(n in (2, 3) for n in block.order) else []
                done = tuple(f"{part} restart" for part in parts)
                assert {measured.actions for measured in block.measurements} == {done}
                assert BASELINE in block.order
    assert claims <= 1  # at most 5% are promised: more than one of twelve has a chance of 12%
