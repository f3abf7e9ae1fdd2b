"""Which trials are to blame for runs that fail: never the baseline's twin, also after a pause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.campaign.campaigns import FAST, THREADS, Campaign, Recorder, failing, faster, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.campaign.several import NAMES, lose, several
from tests.unit.plan.histories import BLOCK, NOON
from tuner.errors import CampaignHalted, ConfigurationError, WorkloadError
from tuner.judge.pilot import PilotRules
from tuner.model import BASELINE, Answer, BlockKind, Configuration, Trial
from tuner.plan.halting import void_reason
from tuner.plan.piloting import TWIN_ORIGIN, plan_pilot
from tuner.plan.steps import RunBlock
from tuner.run import measuring
from tuner.run.arm_runs import ArmRuns
from tuner.run.failures import Failures, LeftOut, left_out
from tuner.run.notes import Notes
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState, EventKind, TrialState
from tuner.store import NewEvent

TWIN = 1
ONE_TRIAL = {"arms": 1, "blocks_per_trial": 3, "max_trials": 1}


def piloted() -> CampaignSpec:
    return spec(faster(), pilot={"blocks": 3, "override": True}, stop="certified")


def let_fail(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[int, int], bool], problem: BaseException
) -> None:
    """``fails``: whether each run of a trial in a block fails, by their numbers."""
    real = ArmRuns.measure

    def measure(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        if fails(step.number, trial.number):
            raise problem
        return real(runner, step, position, trial, which)

    monkeypatch.setattr(ArmRuns, "measure", measure)


def states(campaign: Campaign) -> list[BlockState]:
    return [block.state for block in campaign.blocks]


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem", [WorkloadError("short-read"), ConfigurationError("it does not start")]
)
def test_a_failure_of_the_twin_only_makes_its_block_void(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """In two blocks, so that it is not the order of the arms that excuses it."""
    let_fail(monkeypatch, lambda block, trial: block <= 2 and trial == TWIN, problem)
    campaign = begin(piloted())
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert states(campaign)[:5] == [BlockState.VOID] * 2 + [BlockState.COMPLETE] * 3
    assert campaign.blocks[0].reason == f"trial {TWIN}: {problem}"
    assert campaign.trials[TWIN].state is TrialState.COMPLETE
    assert EventKind.LEFT_OUT not in campaign.kinds()
    assert "pilot" in campaign.kinds()


@pytest.mark.slow
def test_a_failure_of_the_twin_on_one_of_several_testbeds_makes_its_block_void(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = WorkloadError("short-read")
    let_fail(monkeypatch, lambda block, trial: block in (1, 3) and trial == TWIN, problem)
    pilot = {"blocks": 4, "override": True}
    campaign = begin(several(faster(), names=NAMES[:2], pilot=pilot))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    void = [block.number for block in campaign.blocks if block.state is BlockState.VOID]
    assert void == [1, 3]
    assert EventKind.LEFT_OUT not in campaign.kinds()


@pytest.mark.slow
@pytest.mark.parametrize("testbeds", [1, 2])
def test_a_twin_that_always_fails_ends_the_campaign(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, testbeds: int
) -> None:
    let_fail(monkeypatch, lambda _, trial: trial == TWIN, WorkloadError("short-read"))
    pilot = {"blocks": 3, "override": True}
    document = piloted() if testbeds == 1 else several(faster(), names=NAMES[:2], pilot=pilot)
    campaign = begin(document)
    for runs in (1, 2):
        outcome = campaign.run()
        assert isinstance(outcome.error, CampaignHalted)
        assert "4 blocks in a row were void" in outcome.campaign.reason
        assert states(campaign) == [BlockState.VOID] * 4 * testbeds * runs
    assert campaign.trials[TWIN].state is TrialState.RUNNING


@pytest.mark.slow
def test_a_campaign_whose_twin_has_failed_in_an_earlier_version_goes_on(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(piloted())
    with monkeypatch.context() as earlier:
        earlier.setattr(measuring, "is_as_found", lambda trial: trial.number == BASELINE)
        let_fail(
            earlier, lambda block, trial: block == 1 and trial == TWIN, ConfigurationError("once")
        )
        let_fail(earlier, lambda block, _: block == 2, KeyboardInterrupt())
        campaign.run()
    assert campaign.trials[TWIN].state is TrialState.FAILED
    assert states(campaign) == [BlockState.COMPLETE, BlockState.VOID]
    assert campaign.run().campaign.state is CampaignState.FINISHED
    pilot = [block for block in campaign.blocks if block.kind is BlockKind.PILOT]
    assert sum(len(block.measurements) == 2 for block in pilot) == 3


def test_a_block_without_the_twin_is_no_pair_of_the_pilot() -> None:
    rules = PilotRules(
        weights=(0.5, 0.5),
        delta=0.02,
        floor=0.05,
        max_blocks=3,
        budget_s=1000.0,
        arms=2,
        certify_blocks=20,
        certify_share=0.5,
    )
    nothing = Configuration()
    trials = [
        Trial(BASELINE, nothing, 0, "as found", TrialState.RUNNING),
        Trial(TWIN, nothing, 0, TWIN_ORIGIN, TrialState.FAILED),
    ]
    alone = replace(BLOCK, kind=BlockKind.PILOT, round=0, times_s={BASELINE: (1.0, 1.0)})
    whole = replace(BLOCK, kind=BlockKind.PILOT, round=0)
    assert plan_pilot(trials, [alone, whole, whole], rules).more
    assert not plan_pilot(trials, [alone, whole, whole, whole], rules).more


@pytest.mark.parametrize("kind", list(BlockKind))
def test_only_a_trial_of_the_search_explains_void_blocks(kind: BlockKind) -> None:
    void = replace(BLOCK, kind=kind, state=BlockState.VOID, times_s={}, reason="because")
    assert (void_reason([void] * 4, {TWIN}) is not None) is (kind is BlockKind.PILOT)


@pytest.mark.slow
def test_a_recommendation_tells_on_which_testbed_it_did_not_run(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(monkeypatch, seed=1, runs=3)  # the trial twice, then the baseline
    worlds = {"a": {"effects": [faster(), failing("workload")]}}
    campaign = begin(
        several(faster(), names=NAMES[:2], worlds=worlds, first=(FAST,), search=ONE_TRIAL)
    )
    answer = campaign.run().campaign.recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert answer.trial == 1
    assert "it did not run on simulated a: its workload failed there" in answer.notes
    # A block with the baseline alone counts for nothing.
    for block in campaign.blocks:
        assert (block.state is BlockState.VOID) is (block.testbed == "simulated a")
    (out,) = campaign.store.events(campaign.id, kinds=["left-out"])
    assert out.data["testbed"] == "simulated a"
    assert "testbed-lost" in campaign.kinds()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_trials_that_fail_one_after_the_other_fail_for_good(begin: Begin, seed: int) -> None:
    first = tuple({THREADS: number} for number in (180, 200, 220))
    search = {"arms": 4, "blocks_per_trial": 3, "max_trials": 5}
    document = spec(failing("workload"), first=first, search=search, seed=seed)
    campaign = begin(document)
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert all(campaign.trials[number].state is TrialState.FAILED for number in (1, 2, 3))
    # Two of them in the first block at most, one of which or both fail in the next.
    assert sum(not {1, 2, 3}.isdisjoint(block.order) for block in campaign.blocks) <= 4


@pytest.mark.slow
def test_a_trial_left_out_before_a_pause_fails_after_it(begin: Begin) -> None:
    def is_last(seed: int, number: int) -> bool:
        return RunBlock.shuffled(seed, number, BlockKind.SEARCH, 1, (1,)).order[-1] == 1

    seed = next(s for s in range(100) if is_last(s, 1) and is_last(s, 2))
    campaign = begin(spec(failing("workload", low=1), search=ONE_TRIAL, first=(FAST,), seed=seed))

    def pause(_: int) -> None:
        if recorder.events and recorder.events[-1].kind == EventKind.LEFT_OUT:
            raise KeyboardInterrupt

    recorder = Recorder(pause)
    assert campaign.run(recorder).campaign.state is CampaignState.PAUSED
    assert "trial-failed" not in campaign.kinds()
    campaign.run()
    assert campaign.trials[1].state is TrialState.FAILED
    assert len(campaign.blocks) == 2


def test_the_testbed_of_a_trial_left_out_is_known_in_later_runs(begin: Begin) -> None:
    campaign = begin(spec())
    for data in ({"testbed": "a"}, {}, {"trial": "none"}):
        row: dict[str, str | int] = {"block": 1, "trial": 3, **data}
        campaign.store.add_event(campaign.id, NewEvent(NOON, EventKind.LEFT_OUT, "", row))
    earlier = left_out(campaign.store, campaign.id, [replace(BLOCK, testbed="b")])
    assert earlier == [LeftOut(3, "a"), LeftOut(3, "b")]
    none = left_out(campaign.store, campaign.id, [])
    assert none == [LeftOut(3, "a"), LeftOut(3, None)]


def test_a_trial_left_out_on_two_testbeds_in_two_runs_is_to_blame() -> None:
    for where, is_to_blame in (("a", False), ("b", True)):
        failures = Failures([LeftOut(1, "a")])
        failures.testbeds = 2
        assert failures.is_to_blame(LeftOut(1, where), works=True) is is_to_blame


@pytest.mark.parametrize(("before", "now"), [(True, True), (True, False), (False, True)])
def test_a_trial_left_out_twice_where_other_arms_ran_is_to_blame(before: bool, now: bool) -> None:
    for earlier, is_to_blame in (("a", before and now), ("b", True)):
        failures = Failures([LeftOut(1, earlier, others_ran=before)])
        failures.testbeds = 2
        left_out_now = LeftOut(1, "a", others_ran=now)
        assert failures.is_to_blame(left_out_now, works=False) is is_to_blame


@pytest.mark.slow
@pytest.mark.parametrize("paused", [False, True])
def test_a_trial_that_fails_on_one_of_several_testbeds_fails(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    worlds = {"a": {"effects": [faster(), failing("workload")]}}
    document = several(faster(), names=NAMES[:2], worlds=worlds, first=(FAST,), search=ONE_TRIAL)
    campaign = begin(document)
    if paused:
        with monkeypatch.context() as patched:
            let_fail(patched, lambda block, _: block > 2, KeyboardInterrupt())
            assert campaign.run().campaign.state is CampaignState.PAUSED
        assert campaign.kinds().count(EventKind.LEFT_OUT) == 1
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert campaign.trials[1].state is TrialState.FAILED
    assert "the workload failed twice on simulated a: " in campaign.trials[1].reason
    assert campaign.kinds().count(EventKind.LEFT_OUT) == 1
    assert "testbed-lost" not in campaign.kinds()


def test_a_trial_never_measured_where_others_failed_has_a_caveat_too(begin: Begin) -> None:
    campaign = begin(spec())
    for number, where in ((3, "a"), (4, "b"), (5, "c")):
        data: dict[str, str | int] = {"block": 1, "trial": number, "testbed": where}
        campaign.store.add_event(campaign.id, NewEvent(NOON, EventKind.LEFT_OUT, "", data))
    ran = SimpleNamespace(block=replace(BLOCK, testbed="c"), scores={BASELINE: 0.0, 4: 0.0})
    plans: Any = SimpleNamespace(table=SimpleNamespace(ended_blocks=[], scored=[ran]))
    nothing: Any = None
    notes = Notes(campaign.store, campaign.id, plans, nothing, nothing, together=True)
    assert notes._missing_on(4) == (
        "it did not run on b: its workload failed there",
        "it was never measured on a, where the workloads of other trials failed",
    )
    alone = Notes(campaign.store, campaign.id, plans, nothing, nothing, together=False)
    assert notes._failures_of(None) == alone._missing_on(4) == ()
