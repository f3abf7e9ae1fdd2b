"""The whole loop on a testbed with known ground truth: what it concludes and stores."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import workloads
from tests.unit.campaign.campaigns import (
    FAST,
    OTHER,
    SHORT,
    SHORT_SEARCH,
    THREADS,
    Campaign,
    Recorder,
    failing,
    faster,
    spec,
)
from tests.unit.campaign.conftest import Begin
from tuner.compose import prepare
from tuner.errors import (
    ConflictError,
)
from tuner.model import BASELINE, Answer, Configuration, Trial
from tuner.plan.steps import RunBlock
from tuner.report.standing import how_many
from tuner.run.arm_runs import ArmRuns
from tuner.run.runner import Runner
from tuner.states import BlockState, CampaignState

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


def test_the_time_of_a_long_block_is_given_in_minutes(begin: Begin) -> None:
    slow = {"simulated": {"costs": {"workload": 100}}}
    campaign = begin(spec(testbed=slow, budget={"wall_time": "1h"}))
    campaign.run()
    messages = [event.message for event in campaign.store.events(campaign.id)]
    (first,) = [text for text in messages if text.startswith("block 1 complete")]
    assert re.fullmatch(r"block 1 complete in \d min \d\d s", first)


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


def test_the_original_configuration_is_the_baseline_and_is_restored(begin: Begin) -> None:
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


def test_the_same_seed_gives_the_same_campaign(finished: Campaign, begin: Begin) -> None:
    one, other = finished, begin(spec(faster()))
    other.run()
    assert [t.configuration for t in one.trials] == [t.configuration for t in other.trials]
    assert [b.order for b in one.blocks] == [b.order for b in other.blocks]
    assert (
        one.store.campaign(one.id).recommendation == other.store.campaign(other.id).recommendation
    )


def test_every_arm_is_one_measurement_with_its_event(finished: Campaign) -> None:
    campaign = finished
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
    campaign = begin(spec(faster(), **SHORT))

    def stop(count: int) -> None:
        if count == 12:
            raise KeyboardInterrupt

    campaign.run(Recorder(stop))
    campaign.run()
    events = campaign.store.events(campaign.id, kinds=["campaign-started"])
    assert [e.message for e in events] == ["campaign started", "campaign resumed"]


def test_the_last_standing_of_a_paused_campaign_has_the_block_that_was_cut_off(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, recorder, real = begin(spec(faster())), Recorder(), ArmRuns.measure

    def measure(runner: ArmRuns, step: RunBlock, position: int, trial: Trial, which: str) -> object:
        if (step.number, position) == (3, 1):
            raise KeyboardInterrupt
        return real(runner, step, position, trial, which)

    monkeypatch.setattr(ArmRuns, "measure", measure)
    paused = campaign.run(recorder).campaign
    assert paused.state is CampaignState.PAUSED
    *_, before, last = recorder.standings
    assert (before.block, last.block) == (2, 3)
    assert campaign.blocks[-1].measurements
    assert last.measurements == sum(len(b.measurements) for b in campaign.blocks)
    assert last.elapsed_s == paused.time_use.wall_s


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
    runner = Runner(
        campaign.store,
        campaign.id,
        prepared.spec,
        prepared.workload,
        fresh.campaign_testbeds(campaign.id),
        Recorder(),
    )
    with pytest.raises(ConflictError, match="the testbed has changed"):
        runner.run()


def test_another_workload_than_before_is_not_mixed_in(begin: Begin, tmp_path: Path) -> None:
    text = workloads.load("mixed-use").text
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    campaign = begin(spec(failing("workload", low=1), found={THREADS: 9}, workload=str(path)))
    campaign.run()
    other = begin(spec(faster(), workload=str(path), **SHORT))

    def stop(count: int) -> None:
        if count == 60:
            raise KeyboardInterrupt

    assert other.run(Recorder(stop)).campaign.state is CampaignState.PAUSED
    path.write_text(text.replace("small-delete", "small-removal"))
    with pytest.raises(ConflictError, match="no longer has the components"):
        other.run()
    assert other.store.campaign(other.id).state is CampaignState.PAUSED
    path.write_text(text)
    assert other.run().campaign.state is CampaignState.FINISHED


def test_time_is_accounted_for(finished: Campaign) -> None:
    campaign = finished
    use = campaign.store.campaign(campaign.id).time_use
    assert use.workload_s > 0
    assert use.apply_s > 0
    blocks_s = sum(b.duration_s for b in campaign.blocks)
    assert use.wall_s == pytest.approx(blocks_s, rel=0.05)
    # In virtual time, only restarts and the workload take time.
    assert use.overhead_share == pytest.approx(0.0, abs=1e-6)


def test_a_finished_campaign_cannot_be_run_again(finished: Campaign) -> None:
    campaign = finished
    before = campaign.kinds()
    again = campaign.run()
    assert isinstance(again.error, ConflictError)
    assert "finished" in str(again.error)
    assert campaign.kinds() == before
