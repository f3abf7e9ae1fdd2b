"""The whole loop on a testbed with known ground truth: what it concludes, and what it survives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import workloads
from tests.unit.campaign.campaigns import (
    FAST,
    OTHER,
    SHORT_SEARCH,
    THREADS,
    Recorder,
    failing,
    faster,
    spec,
)
from tests.unit.campaign.conftest import Begin
from tuner import compose
from tuner.campaign.runner import Runner
from tuner.compose import prepare
from tuner.errors import (
    CampaignHalted,
    ConfigurationError,
    ConflictError,
    SpecError,
    StoreError,
    TestbedError,
)
from tuner.model import BASELINE, Answer, BlockKind, Configuration
from tuner.report.standing import how_many
from tuner.services.simulated import testbed as simulated
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store

pytestmark = pytest.mark.slow


def test_a_true_effect_is_certified(begin: Begin) -> None:
    campaign = begin(spec(faster()))
    outcome = campaign.run()
    answer = outcome.campaign.recommendation
    assert outcome.error is None
    assert outcome.campaign.state is CampaignState.FINISHED
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    threads = answer.configuration.as_dict()[THREADS]
    assert isinstance(threads, int)
    assert threads >= 150
    assert f"-p {threads}" in " ".join(answer.flags["fileserver"])
    assert answer.baseline == Configuration()
    assert answer.lower is not None
    assert answer.upper is not None
    assert answer.lower < 0.85 < answer.upper < 1.0
    assert set(answer.components) == set(campaign.prepared().workload.components)


def test_no_effect_is_no_improvement_and_says_so(begin: Begin) -> None:
    campaign = begin(spec(noise=0.01))
    answer = campaign.run().campaign.recommendation
    assert answer is not None
    assert answer.answer is Answer.NO_IMPROVEMENT
    assert answer.reason == "none of 3 configurations tried looked 2.0% faster than the baseline"
    assert answer.configuration == answer.baseline


def test_an_effect_that_ruins_one_component_is_not_recommended(begin: Begin) -> None:
    ruins: dict[str, object] = {
        "parameter": THREADS,
        "low": 150,
        "change": 1.0,
        "components": ["metadata"],
    }
    answer = begin(spec(faster(-0.4), ruins)).run().campaign.recommendation
    assert answer is not None
    assert answer.configuration.as_dict().get(THREADS) != 200


def test_the_original_configuration_is_the_baseline_and_is_put_back(begin: Begin) -> None:
    campaign = begin(spec(faster(), found={"fileserver.dir_buffers": 100}, search=SHORT_SEARCH))
    outcome = campaign.run()
    original = Configuration.of({"fileserver.dir_buffers": 100})
    assert outcome.campaign.baseline == original
    assert campaign.testbed is not None
    assert campaign.testbed.settings == original
    assert outcome.restored == ("fileserver: as found", "cache_manager: as found")
    assert campaign.trials[1].configuration.as_dict() == original.as_dict() | FAST
    for block in campaign.blocks:
        for measurement in block.measurements:
            assert measurement.effective == campaign.trials[measurement.trial].configuration


def test_the_same_seed_gives_the_same_campaign(begin: Begin) -> None:
    one, other = begin(spec(faster())), begin(spec(faster()))
    one.run()
    other.run()
    assert [t.configuration for t in one.trials] == [t.configuration for t in other.trials]
    assert [b.order for b in one.blocks] == [b.order for b in other.blocks]
    assert (
        one.store.campaign(one.id).recommendation == other.store.campaign(other.id).recommendation
    )


def test_every_arm_is_one_measurement_with_its_event(begin: Begin) -> None:
    campaign = begin(spec(faster()))
    campaign.run()
    measured = [(b.number, m.trial) for b in campaign.blocks for m in b.measurements]
    assert len(measured) == len(set(measured))
    assert campaign.kinds().count("measured") == len(measured)
    for block in campaign.blocks:
        assert tuple(m.trial for m in block.measurements) == block.order
        assert len({m.seed for m in block.measurements}) == 1
    seeds = {block.measurements[0].seed for block in campaign.blocks}
    assert len(seeds) == len(campaign.blocks)


def test_the_observer_gets_every_stored_event_in_order(begin: Begin) -> None:
    campaign, recorder = begin(spec(faster())), Recorder()
    campaign.run(recorder)
    events = campaign.store.events(campaign.id)
    numbers = [e.number for e in recorder.events]
    assert numbers == sorted(numbers)
    # The observer was not there when the campaign was created.
    assert {e.kind for e in events if e.number not in numbers} == {"campaign-created"}
    # Before the first measurement the total cannot be estimated.
    assert how_many(recorder.standings[0]) == "0 measurements"
    last = recorder.standings[-1]
    assert last.measurements == sum(len(b.measurements) for b in campaign.blocks)
    # This campaign is limited by time only, so the number of measurements is an estimate.
    assert f"{last.measurements} of about " in how_many(last)
    alike = [b for b in campaign.blocks if b.kind is last.kind and b.state is BlockState.COMPLETE]
    assert (last.rows[0].trial, last.rows[0].blocks) == (BASELINE, len(alike))


def test_a_resumed_campaign_is_not_reported_as_started(begin: Begin) -> None:
    campaign = begin(spec(faster()))

    def stop(count: int) -> None:
        if count == 12:
            raise KeyboardInterrupt

    campaign.run(Recorder(stop))
    campaign.run()
    events = campaign.store.events(campaign.id, kinds=["campaign-started"])
    assert [e.message for e in events] == ["campaign started", "campaign resumed"]


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
    assert "the workload failed 2 times" in campaign.trials[1].reason
    failed = {t.number for t in campaign.trials if t.state is TrialState.FAILED}
    void = [b for b in campaign.blocks if b.state is BlockState.VOID]
    assert sum("trial 1:" in b.reason for b in void) == 2
    assert len(void) == 2 * len(failed)
    assert all(any(f"trial {n}:" in b.reason for n in failed) for b in void)


def test_all_configurations_failing_ends_with_no_improvement(begin: Begin) -> None:
    outcome = begin(spec(failing("start", low=1), search={"max_trials": 4})).run()
    answer = outcome.campaign.recommendation
    assert outcome.campaign.state is CampaignState.FINISHED
    assert answer is not None
    assert answer.answer is Answer.NO_IMPROVEMENT
    assert "did not run" in answer.reason


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


def test_a_baseline_that_cannot_be_put_back_ends_the_campaign(begin: Begin) -> None:
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

    def failing_apply(part: simulated._SimulatedPart, values: dict[str, int]) -> str | None:
        if BlockKind.CERTIFY in kinds and values.get("threads", 0) >= 150:
            raise ConfigurationError("it does not start any more")
        return apply(part, values)

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


def test_a_space_that_is_used_up_ends_in_an_answer(begin: Begin) -> None:
    spaces = {
        "cache_manager": {
            "name": "openafs-cache-manager-fuse-1.8",
            "only": ["daemons"],
            "range": {"daemons": [5, 6]},
        },
    }
    effect: dict[str, object] = {
        "parameter": "cache_manager.daemons",
        "value": 6,
        "change": -0.2,
    }
    campaign = begin(spec(effect, first=(), spaces=spaces, search={"max_trials": 20, "arms": 4}))
    outcome = campaign.run()
    assert outcome.error is None
    assert {trial.origin for trial in campaign.trials[1:]} == {"model"}
    assert len(campaign.trials) == 1 + 2
    # With nothing left to try, it does not wait for the end of its budget.
    assert sum(b.duration_s for b in campaign.blocks) < 0.75 * 15 * 60.0
    assert outcome.campaign.recommendation is not None
    assert outcome.campaign.recommendation.configuration.as_dict() == {"cache_manager.daemons": 6}


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


def test_first_configurations_come_first_and_once(begin: Begin) -> None:
    campaign = begin(spec(first=({}, FAST, FAST, OTHER), search={"max_trials": 4}))
    campaign.run()
    assert [t.origin for t in campaign.trials][:4] == ["as found", "first 2", "first 4", "model"]
    configurations = [t.configuration for t in campaign.trials]
    assert len(set(configurations)) == len(configurations)


def test_a_testbed_that_is_not_as_it_was_is_not_measured(begin: Begin) -> None:
    campaign = begin(spec(failing("workload", low=1), found={THREADS: 9}))
    campaign.run()
    document = campaign.spec.model_dump()
    document["testbed"]["simulated"]["found"] = {THREADS: 10}
    campaign.spec = campaign.spec.model_validate(document)
    prepared = replace(campaign.prepared(), spec=campaign.spec)
    fresh = prepare(campaign.spec, campaign.directory)
    outcome = Runner(
        campaign.store,
        campaign.id,
        prepared.spec,
        prepared.workload,
        fresh.sites(campaign.id),
        Recorder(),
    ).run()
    assert isinstance(outcome.error, ConflictError)
    assert "the testbed has changed" in str(outcome.error)


def test_another_workload_than_before_is_not_mixed_in(begin: Begin, tmp_path: Path) -> None:
    text = workloads.load("mixed-use").text
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    campaign = begin(spec(failing("workload", low=1), found={THREADS: 9}, workload=str(path)))
    campaign.run()
    other = begin(spec(faster(), workload=str(path)))

    def stop(count: int) -> None:
        if count == 60:
            raise KeyboardInterrupt

    assert other.run(Recorder(stop)).campaign.state is CampaignState.PAUSED
    path.write_text(text.replace("small-delete", "small-removal"))
    outcome = other.run()
    assert isinstance(outcome.error, ConflictError)
    assert "no longer has the components" in str(outcome.error)
    path.write_text(text)
    assert other.run().campaign.state is CampaignState.FINISHED


@pytest.mark.parametrize("after", [3, 20, 41])
def test_a_store_that_fails_still_leaves_the_testbed_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    campaign = begin(spec(faster(), found={"fileserver.dir_buffers": 100}, search=SHORT_SEARCH))
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
    assert campaign.testbed.settings == Configuration.of({"fileserver.dir_buffers": 100})
    monkeypatch.undo()
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_a_defect_is_raised_after_the_testbed_is_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(spec(faster()))

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


def test_an_answer_is_kept_where_the_testbed_cannot_be_put_back(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(spec(faster()))

    def stuck(testbed: simulated.SimulatedTestbed) -> None:
        raise TestbedError("the host is gone")

    monkeypatch.setattr(simulated.SimulatedTestbed, "close", stuck)
    # A campaign that has its answer is never resumed, and the message does not suggest it.
    with pytest.raises(TestbedError, match="the host is gone; the next campaign there puts back"):
        campaign.run()
    row = campaign.store.campaign(campaign.id)
    assert row.state is CampaignState.FINISHED
    assert row.recommendation is not None
    assert "restore-failed" in campaign.kinds()


def test_time_is_accounted_for(begin: Begin) -> None:
    campaign = begin(spec(faster()))
    use = campaign.run().campaign.time_use
    assert use.workload_s > 0
    assert use.apply_s > 0
    blocks_s = sum(b.duration_s for b in campaign.blocks)
    assert use.wall_s == pytest.approx(blocks_s, rel=0.05)
    # In virtual time, only restarts and the workload take time.
    assert use.overhead_share == pytest.approx(0.0, abs=1e-6)


def test_a_finished_campaign_cannot_be_run_again(begin: Begin) -> None:
    campaign = begin(spec(faster()))
    campaign.run()
    before = campaign.kinds()
    again = campaign.run()
    assert isinstance(again.error, ConflictError)
    assert "finished" in str(again.error)
    assert campaign.kinds() == before


def test_a_server_restarted_in_the_middle_of_a_run_voids_the_block(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = iter(["first", "second"])
    monkeypatch.setattr(
        "tuner.services.simulated.testbed._SimulatedPart.incarnation",
        lambda part: next(lives, "second") if part.space.component == "fileserver" else "",
    )
    campaign = begin(spec(faster()))
    campaign.run()
    first, *others = campaign.blocks
    assert first.state is BlockState.VOID
    assert "the fileserver was restarted during the run" in first.reason
    assert {block.state for block in others} == {BlockState.COMPLETE}
