"""What a campaign survives: configurations, baselines, servers, stores and testbeds that fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.unit.campaign.campaigns import (
    FAST,
    SHORT,
    THREADS,
    failing,
    faster,
    spec,
)
from tests.unit.campaign.conftest import Begin
from tuner import compose
from tuner.errors import (
    CampaignHalted,
    ConfigurationError,
    ConflictError,
    SpecError,
    StoreError,
    TestbedError,
    TransportError,
    WorkloadError,
)
from tuner.model import BASELINE, Answer, BlockKind, Configuration, Trial
from tuner.plan.steps import RunBlock
from tuner.report.recommendation_document import recommendation_document
from tuner.report.summary import Effort, campaign_summary
from tuner.run.arm_runs import ArmRuns
from tuner.run.failures import Failures
from tuner.services.simulated import testbed as simulated
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store

pytestmark = pytest.mark.slow


def test_a_configuration_that_does_not_start_fails_with_its_reason(begin: Begin) -> None:
    campaign = begin(spec(failing("start"), faster(low=15)))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED
    assert campaign.trials[1].state is TrialState.FAILED
    assert "does not start" in campaign.trials[1].reason
    assert THREADS in campaign.trials[1].reason
    assert campaign.blocks[0].state is BlockState.COMPLETE
    assert not any(m.trial == 1 for b in campaign.blocks for m in b.measurements)
    assert all(1 not in b.order for b in campaign.blocks[1:])
    assert outcome.campaign.recommendation is not None
    threads = outcome.campaign.recommendation.configuration.as_dict()[THREADS]
    assert isinstance(threads, int)
    assert 15 <= threads < 150


def test_a_configuration_that_fails_the_workload_twice_fails(begin: Begin) -> None:
    campaign = begin(spec(failing("workload"), faster(low=15)))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED
    assert campaign.trials[1].state is TrialState.FAILED
    assert "the workload failed twice" in campaign.trials[1].reason
    # Its block continues without it.
    failed = {t.number for t in campaign.trials if t.state is TrialState.FAILED}
    first = next(b for b in campaign.blocks if 1 in b.order)
    assert first.state is BlockState.COMPLETE
    assert {m.trial for m in first.measurements} == set(first.order) - failed
    assert all(1 not in b.order for b in campaign.blocks if b.number > first.number)
    # A block is void only if two of its arms fail, one after the other.
    for block in campaign.blocks:
        if block.state is BlockState.VOID:
            assert len(failed & set(block.order)) >= 2


@pytest.mark.parametrize("which", ["baseline", "trial"])
def test_a_run_that_fails_once_is_repeated_in_its_block(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    real = simulated._SimulatedEngine.report
    failures: list[str] = []

    def run(engine: simulated._SimulatedEngine, run_id: str) -> object:
        is_baseline = run_id.endswith("-0")
        if not failures and "-3-" in run_id and is_baseline is (which == "baseline"):
            failures.append(run_id)
            raise WorkloadError("stage read: short-read")
        return real(engine, run_id)

    monkeypatch.setattr(simulated._SimulatedEngine, "report", run)
    campaign = begin(spec(faster(low=15)))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert len(failures) == 1
    assert all(b.state is BlockState.COMPLETE for b in campaign.blocks)
    block = campaign.blocks[2]
    assert {m.trial for m in block.measurements} == set(block.order)
    assert not any(t.state is TrialState.FAILED for t in campaign.trials)
    (event,) = (e for e in campaign.store.events(campaign.id) if e.kind == "run-failed")
    assert event.message.startswith("block 3, ")
    assert event.message.endswith("the run failed and is repeated: stage read: short-read")


def test_a_campaign_that_halts_says_what_the_servers_say_of_their_storage(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked only about runs that fail again."""
    calls: list[str] = []
    real = simulated.SimulatedTestbed.open

    def why() -> str:
        calls.append("")
        return "its volume bench is off-line"

    def open_testbed(*arguments: Any) -> ReadyTestbed:
        return replace(real(*arguments), why_unusable=why)

    def run(engine: object, run_id: str) -> object:
        raise WorkloadError("stage write: timed out", {"exit_status": 1})

    monkeypatch.setattr(simulated.SimulatedTestbed, "open", open_testbed)
    monkeypatch.setattr(simulated._SimulatedEngine, "report", run)
    campaign = begin(spec(faster(low=15)))
    outcome = campaign.run()
    assert isinstance(outcome.error, CampaignHalted)
    assert outcome.campaign.reason.endswith("stage write: timed out; its volume bench is off-line")
    failed = [e for e in campaign.store.events(campaign.id) if e.kind == "run-failed"]
    again = [event for event in failed if ": the run failed: " in event.message]
    assert len(again) == len(calls) < len(failed)
    assert all(event.message.endswith("is off-line") for event in again)
    assert all(event.data["exit_status"] == 1 for event in failed)


@pytest.mark.parametrize("blocks", [0, 3], ids=["trial 1 before it", "only the baseline"])
def test_a_baseline_that_does_not_start_says_what_the_servers_say_of_their_storage(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """A client does not start where its volume was renamed; what it says may be a sentence."""
    real = simulated.SimulatedTestbed.open

    def open_testbed(*arguments: Any) -> ReadyTestbed:
        return replace(real(*arguments), why_unusable=lambda: "it does not serve volume bench")

    def apply(*_: object, **__: object) -> object:
        raise ConfigurationError("the client does not start: No such device .")

    monkeypatch.setattr(simulated.SimulatedTestbed, "open", open_testbed)
    monkeypatch.setattr(Target, "apply", apply)
    campaign = begin(spec(faster(low=15), pilot={"blocks": blocks}))
    outcome = campaign.run()
    assert isinstance(outcome.error, CampaignHalted)
    reason = "does not start: No such device; it does not serve volume bench"
    assert outcome.campaign.reason.endswith(reason)
    assert all(trial.state is not TrialState.FAILED for trial in campaign.trials)


@pytest.mark.parametrize(
    "failing_runs", [("",), ("", "again")], ids=["repeated", "repeated and left out"]
)
def test_an_answer_says_how_often_its_runs_failed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, failing_runs: tuple[str, ...]
) -> None:
    real = ArmRuns.measure
    runs: Counter[int] = Counter()
    failures: Counter[int] = Counter()

    def measure(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        runs[trial.number] += 1
        often = step.number % 4 == 0 and trial.number != BASELINE and which in failing_runs
        if often or (step.number == 2 and not which):
            failures[trial.number] += 1
            raise WorkloadError("short-read")
        return real(runner, step, position, trial, which)

    monkeypatch.setattr(ArmRuns, "measure", measure)
    # As on several testbeds, of which only one is concerned.
    monkeypatch.setattr(Failures, "is_to_blame", lambda *_, **__: False)
    search = {"arms": 1, "blocks_per_trial": 3, "max_trials": 1}
    campaign = begin(spec(faster(-0.2), first=(FAST,), search=search))
    answer = campaign.run().campaign.recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert failures[1] > 1
    (caveat,) = (note for note in answer.notes if "failed" in note)
    assert caveat == (
        f"{failures[1]} of {runs[1]} runs of this configuration failed, and were repeated or left "
        f"out; 1 of {runs[BASELINE]} of the baseline's did"
    )
    # At the end of the run, and wherever else the answer is displayed.
    record, terminal = campaign.store.campaign(campaign.id), StringIO()
    Console(file=terminal).print(campaign_summary(record, answer, effort=Effort(1, 1, 1)))
    assert caveat in " ".join(terminal.getvalue().split())
    assert caveat in recommendation_document(record, answer).notes


def test_an_answer_says_how_often_its_runs_cut_off_a_block(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a setting that makes a host unreachable now and then would leave no trace."""
    real = ArmRuns.measure
    cut_off: Counter[int] = Counter()

    def measure(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        concerned = {3: 1, 5: 1, 7: BASELINE}
        if concerned.get(step.number) == trial.number:
            cut_off[trial.number] += 1
            raise TransportError("client1: no answer")
        return real(runner, step, position, trial, which)

    monkeypatch.setattr(ArmRuns, "measure", measure)
    search = {"arms": 1, "blocks_per_trial": 3, "max_trials": 1}
    campaign = begin(spec(faster(-0.2), first=(FAST,), search=search))
    answer = campaign.run().campaign.recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert cut_off == {1: 2, BASELINE: 1}
    (caveat,) = (note for note in answer.notes if "did not count" in note)
    assert caveat == (
        "2 blocks did not count, as a host or its connection failed during a run of this "
        "configuration; 1 during one of the baseline's"
    )
    voids = campaign.store.events(campaign.id, kinds=["block-void"])
    assert [event.data["trial"] for event in voids] == [1, 1, BASELINE]


def test_failed_runs_that_an_earlier_release_did_not_count_have_no_rate(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ArmRuns.measure

    def measure(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        if trial.number != BASELINE and step.number == 2 and not which:
            raise WorkloadError("short-read")
        if step.number == 5:
            raise KeyboardInterrupt
        return real(runner, step, position, trial, which)

    search = {"arms": 1, "blocks_per_trial": 3, "max_trials": 1}
    campaign = begin(spec(faster(-0.2), first=(FAST,), search=search))
    with monkeypatch.context() as patched:
        patched.setattr(ArmRuns, "measure", measure)
        patched.setattr("tuner.run.runner.RELEASE", {})
        assert campaign.run().campaign.state is CampaignState.PAUSED
    answer = campaign.run().campaign.recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    (caveat,) = (note for note in answer.notes if "failed" in note)
    assert caveat == (
        "at least 1 run of this configuration failed, and at least 0 of the baseline's: an earlier "
        "release, with which part of this campaign was measured, did not count all of them"
    )


def test_an_answer_whose_runs_did_not_fail_says_nothing_about_other_trials(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ArmRuns.measure

    def measure(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        if not which and step.number == 2 and trial.configuration.as_dict().get(THREADS, 0) != 200:
            raise WorkloadError("short-read")
        return real(runner, step, position, trial, which)

    monkeypatch.setattr(ArmRuns, "measure", measure)
    campaign = begin(spec(faster(), **SHORT))
    answer = campaign.run().campaign.recommendation
    assert "run-failed" in campaign.kinds()
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert not any("failed" in note for note in answer.notes)


def test_all_configurations_failing_ends_with_no_improvement(begin: Begin) -> None:
    outcome = begin(spec(failing("start", low=1), search={"max_trials": 4})).run()
    answer = outcome.campaign.recommendation
    assert outcome.campaign.state is CampaignState.FINISHED
    assert answer is not None
    assert answer.answer is Answer.NO_IMPROVEMENT
    assert answer.reason.startswith(
        f"no configuration could be run: all 4 tried failed ('fstune show {outcome.campaign.id}' "
        "says why each did), all with the reason: the simulated program does not start"
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_only_configuration_failing_is_the_reason_why_nothing_was_found(
    begin: Begin, seed: int
) -> None:
    document = spec(failing("workload", low=1), search={"max_trials": 1, "arms": 1}, seed=seed)
    campaign = begin(document)
    outcome = campaign.run().campaign
    assert campaign.trials[1].state is TrialState.FAILED
    # The block has a measurement if the baseline came after the trial.
    if campaign.blocks[0].order[0] == BASELINE:
        assert outcome.state is CampaignState.FAILED
        assert "no block could be completed; the last one: " in outcome.reason
        assert "; trial 1 failed: the workload failed twice" in outcome.reason
    else:
        assert outcome.state is CampaignState.FINISHED
        assert outcome.recommendation is not None
        assert outcome.recommendation.answer is Answer.NO_IMPROVEMENT
        assert outcome.recommendation.reason == (
            "no configuration could be run: the only one tried failed (details: 'fstune show "
            f"{outcome.id}'): {campaign.trials[1].reason}"
        )


def test_a_baseline_that_fails_ends_the_campaign_after_bounded_tries(begin: Begin) -> None:
    campaign = begin(spec(failing("workload", low=1), found={THREADS: 9}))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert isinstance(outcome.error, CampaignHalted)
    assert "were void" in outcome.campaign.reason or "no block" in outcome.campaign.reason
    # Two for each trial that is blamed, and a few for which no trial is blamed.
    failed = sum(trial.state is TrialState.FAILED for trial in campaign.trials)
    assert 4 <= len(campaign.blocks) <= 2 * failed + 8
    assert outcome.restored == ("fileserver: as found", "cache_manager: as found")
    assert campaign.trials[BASELINE].state is TrialState.RUNNING
    # When resumed it claims nothing either.
    again = campaign.run()
    assert again.campaign.state is CampaignState.FAILED
    assert again.campaign.recommendation is None
    assert len(campaign.blocks) <= 2 * len(campaign.trials) + 16


def test_a_baseline_that_cannot_be_restored_ends_the_campaign(begin: Begin) -> None:
    campaign = begin(spec(failing("start", low=1), found={THREADS: 9}))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert isinstance(outcome.error, CampaignHalted)
    assert "baseline" in outcome.campaign.reason


def test_a_finalist_may_fail_when_it_is_to_be_certified(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(
        spec(
            faster(-0.2),
            noise=0.01,
            first=(FAST,),
            search={"arms": 1, "blocks_per_trial": 3, "max_trials": 1},
        )
    )
    real = campaign.store.begin_block
    kinds: list[BlockKind] = []

    def begin_block(*args: object) -> object:
        kinds.append(args[1].kind)  # type: ignore[attr-defined]
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(campaign.store, "begin_block", begin_block)
    apply = simulated._SimulatedPart.apply

    def failing_apply(
        part: simulated._SimulatedPart, values: dict[str, int], **options: Any
    ) -> str | None:
        if BlockKind.CERTIFY in kinds and values.get("threads", 0) >= 150:
            raise ConfigurationError("it does not start any more")
        return apply(part, values, **options)

    monkeypatch.setattr(simulated._SimulatedPart, "apply", failing_apply)
    outcome = campaign.run()
    assert BlockKind.CERTIFY in kinds
    assert outcome.error is None
    assert outcome.campaign.state is CampaignState.FINISHED
    first = next(b for b in campaign.blocks if b.kind is BlockKind.CERTIFY)
    (finalist,) = set(first.order) - {BASELINE}
    assert campaign.trials[finalist].state is TrialState.FAILED
    assert outcome.campaign.recommendation is not None
    assert outcome.campaign.recommendation.answer is Answer.NO_IMPROVEMENT


def test_a_first_configuration_that_the_hosts_refuse_ends_the_campaign_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on hosts whose limits are not known from the file.
    monkeypatch.setattr(compose, "check_plan", lambda *_: None)
    outcome = begin(spec(first=({THREADS: 1_000_000_000},))).run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert isinstance(outcome.error, SpecError)
    assert "first.0" in str(outcome.error)
    assert outcome.restored


@pytest.mark.parametrize("after", [3, 20, 31])
def test_a_store_that_fails_still_leaves_the_testbed_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    original = Configuration.of({"fileserver.dir_buffers": 100})
    campaign = begin(spec(faster(), found=original.as_dict(), **SHORT))
    real = Store._change
    count = 0

    def full(store: Store, of: str, work: Callable[..., object]) -> object:
        nonlocal count
        count += 1
        if count > after:
            raise StoreError("its disk is full")
        return real(store, of, work)

    monkeypatch.setattr(Store, "_change", full)
    with pytest.raises(StoreError, match="disk is full"):
        campaign.run()
    assert campaign.testbed is not None
    assert campaign.testbed.settings == original
    monkeypatch.undo()
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_a_defect_is_raised_after_the_testbed_is_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(spec(faster(), **SHORT))

    def broken(*args: object) -> None:
        raise ZeroDivisionError("what nobody expected")

    monkeypatch.setattr(Store, "add_measurement", broken)
    with pytest.raises(ZeroDivisionError):
        campaign.run()
    assert campaign.store.campaign(campaign.id).state is CampaignState.FAILED
    assert "bug in fstune" in campaign.store.campaign(campaign.id).reason
    assert "restored" in campaign.kinds()
    assert not any(b.state is BlockState.RUNNING for b in campaign.blocks)
    monkeypatch.undo()
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_an_answer_is_kept_where_the_testbed_cannot_be_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(spec(faster(), **SHORT))

    def stuck(testbed: simulated.SimulatedTestbed) -> None:
        raise TestbedError("the host is gone")

    monkeypatch.setattr(simulated.SimulatedTestbed, "close", stuck)
    # A campaign that has its answer is never resumed, and the message does not suggest it.
    with pytest.raises(TestbedError, match="the host is gone; the next campaign there restores"):
        campaign.run()
    row = campaign.store.campaign(campaign.id)
    assert row.state is CampaignState.FINISHED
    assert row.recommendation is not None
    assert "restore-failed" in campaign.kinds()


def test_runs_that_were_left_behind_end_before_anything_is_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workload that still runs keeps a client in use, which then cannot be restarted."""
    order: list[str] = []
    real = simulated._SimulatedPart.restore

    def restore(part: simulated._SimulatedPart) -> str:
        order.append("restore")
        return real(part)

    def refuse(*_: object) -> None:
        raise ConflictError("the testbeds are not equivalent")

    monkeypatch.setattr(
        simulated._SimulatedEngine, "end_runs", lambda engine, prefix: order.append(prefix)
    )
    monkeypatch.setattr(simulated._SimulatedPart, "restore", restore)
    monkeypatch.setattr("tuner.run.runner.check_alike", refuse)
    campaign = begin(spec(faster(), **SHORT))
    assert campaign.run().campaign.state is CampaignState.FAILED
    assert order == [campaign.id, "restore", "restore"]


def test_a_run_in_which_the_server_was_restarted_is_repeated(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = iter(["first", "second"])
    monkeypatch.setattr(
        "tuner.services.simulated.testbed._SimulatedPart.incarnation",
        lambda part: next(lives, "second") if part.space.part == "fileserver" else "",
    )
    campaign = begin(spec(faster(), **SHORT))
    campaign.run()
    assert {block.state for block in campaign.blocks} == {BlockState.COMPLETE}
    (event,) = (e for e in campaign.store.events(campaign.id) if e.kind == "run-failed")
    assert "the fileserver was restarted during the run" in event.message
