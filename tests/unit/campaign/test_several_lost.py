"""A campaign on several testbeds, some or all of which are stopped, lost or fail."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from typing import Any

import pytest

from tests.unit.campaign.campaigns import (
    SHORT_SEARCH,
    THREADS,
    Recorder,
    failing,
    faster,
)
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tests.unit.campaign.several import NAMES, batches, interrupted_at, lose, several
from tuner.errors import TestbedError, TransportError
from tuner.model import Answer
from tuner.plan.halting import MAX_VOID_IN_A_ROW
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated import testbed as simulated
from tuner.states import BlockState, CampaignState, EventKind, TrialState
from tuner.stop_signals import FINISHING, stop_signals

pytestmark = pytest.mark.slow


@ON_BOTH
def test_ctrl_c_pauses_and_every_testbed_is_restored(begin: Begin) -> None:
    campaign = begin(several(faster()))
    with stop_signals():
        outcome = campaign.run(Recorder(interrupted_at(90)))
    assert outcome.campaign.state is CampaignState.PAUSED
    assert outcome.campaign.reason == "stopped by SIGINT"
    assert not any(b.state is BlockState.RUNNING for b in campaign.blocks)
    assert len(outcome.restored) == 2 * len(NAMES)
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_the_first_ctrl_c_lets_the_runs_of_all_testbeds_finish(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(several(faster()))
    real = simulated._SimulatedEngine.report
    starts, ends, all_run = list[str](), list[str](), threading.Barrier(len(NAMES))

    def run(engine: simulated._SimulatedEngine, run_id: str) -> Any:
        starts.append(run_id)
        if len(starts) <= len(NAMES) and all_run.wait(60.0) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        report = real(engine, run_id)
        ends.append(run_id)
        return report

    monkeypatch.setattr(simulated._SimulatedEngine, "report", run)
    messages: list[str] = []
    with stop_signals(messages.append):
        outcome = campaign.run()
    assert outcome.campaign.reason == "stopped by SIGINT"
    assert messages == [f"SIGINT: {FINISHING}"]
    assert sorted(ends) == sorted(starts)
    assert len(outcome.restored) == 2 * len(NAMES)
    measurements = [m for block in campaign.blocks for m in block.measurements]
    assert len(measurements) == len(ends)
    monkeypatch.undo()
    assert campaign.run().campaign.state is CampaignState.FINISHED


@ON_BOTH
def test_a_campaign_continues_without_a_lost_testbed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(monkeypatch, seed=3, runs=3)
    campaign = begin(several(faster()))
    outcome = campaign.run()
    assert outcome.error is None
    assert outcome.campaign.state is CampaignState.FINISHED
    (lost,) = (e for e in campaign.store.events(campaign.id) if e.kind == "testbed-lost")
    assert lost.data["testbed"] == "simulated c"
    assert lost.message == "c: no longer used: no answer"
    there = [b.state for b in campaign.blocks if b.testbed == "simulated c"]
    assert there[-2:] == [BlockState.VOID, BlockState.VOID]
    for group in batches(campaign.blocks).values():
        slots = Counter(b.slot for b in group if b.state is BlockState.COMPLETE)
        assert set(slots.values()) == {1}
        assert set(slots) == {b.slot for b in group}


def test_one_bad_connection_loses_no_testbed(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, seed=3, runs=3, back_after=4)
    campaign = begin(several(faster()))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert "testbed-lost" not in campaign.kinds()
    (void,) = (b for b in campaign.blocks if b.state is BlockState.VOID)
    (instead,) = (
        b for b in campaign.blocks if (b.batch, b.slot) == (void.batch, void.slot) and b != void
    )
    assert instead.testbed == void.testbed


@ON_BOTH
def test_without_any_testbed_it_fails_and_can_be_resumed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        for seed in range(1, 3):
            lose(broken, seed, runs=5)
        campaign = begin(several(faster(), names=NAMES[:2]))
        outcome = campaign.run()
        assert outcome.campaign.state is CampaignState.FAILED
        assert isinstance(outcome.error, TestbedError)
        assert campaign.kinds().count("testbed-lost") == 2
    assert campaign.run().campaign.state is CampaignState.FINISHED


def open_all_but(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let a testbed, given by the seed of its noise, not be opened."""
    real = SimulatedTestbed.open

    def failing_open(testbed: SimulatedTestbed, *arguments: Any) -> Any:
        if testbed._world.seed == seed:
            raise TransportError("no route")
        return real(testbed, *arguments)

    monkeypatch.setattr(SimulatedTestbed, "open", failing_open)


def test_the_error_is_that_of_the_testbed_that_was_lost_last(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_all_but(monkeypatch, seed=2)
    lose(monkeypatch, seed=1, runs=5)
    outcome = begin(several(faster(), names=NAMES[:2])).run()
    assert str(outcome.error) == outcome.campaign.reason == "no answer"


def test_a_campaign_continues_without_a_testbed_that_cannot_be_opened(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_all_but(monkeypatch, seed=2)
    campaign = begin(several(faster()))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert {b.testbed for b in campaign.blocks} == {f"simulated {name}" for name in "acd"}


@ON_BOTH
@pytest.mark.parametrize("how", ["start", "workload"])
def test_a_configuration_that_fails_everywhere_fails_once(begin: Begin, how: str) -> None:
    campaign = begin(several(failing(how), faster(low=15), search=SHORT_SEARCH))
    outcome = campaign.run()
    assert outcome.error is None
    assert outcome.campaign.state is CampaignState.FINISHED
    assert campaign.trials[1].state is TrialState.FAILED
    assert campaign.kinds().count("trial-failed") == 1
    assert sum(1 in b.order for b in campaign.blocks) <= 2 * len(NAMES)
    assert "testbed-lost" not in campaign.kinds()


def test_no_testbed_is_lost_because_of_trials_that_fail(begin: Begin) -> None:
    first = tuple({THREADS: number} for number in range(150, 159))
    search = {"arms": 1, "blocks_per_trial": 3, "max_trials": len(first)}
    campaign = begin(several(failing("workload"), names=NAMES[:3], first=first, search=search))
    campaign.run()
    failed = {trial.number for trial in campaign.trials if trial.state is TrialState.FAILED}
    assert failed == set(range(1, len(first) + 1))
    voids = Counter(b.testbed for b in campaign.blocks if b.state is BlockState.VOID)
    assert max(voids.values()) > MAX_VOID_IN_A_ROW
    assert "testbed-lost" not in campaign.kinds()


def test_a_baseline_that_fails_everywhere_ends_the_campaign(begin: Begin) -> None:
    campaign = begin(several(failing("workload", low=1), found={THREADS: 9}))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert "in a row were void; the last one: baseline: " in outcome.campaign.reason
    assert len(campaign.blocks) <= 4 * len(NAMES)


def test_a_campaign_continues_without_a_testbed_where_everything_fails(begin: Begin) -> None:
    """Its blocks are then measured on the others."""
    worlds = {"b": {"effects": [failing("workload", low=1)]}}
    campaign = begin(several(faster(), worlds=worlds, found={THREADS: 9}))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED
    assert outcome.campaign.recommendation is not None
    assert outcome.campaign.recommendation.answer is Answer.RECOMMENDED
    (lost,) = (e for e in campaign.store.events(campaign.id) if e.kind == "testbed-lost")
    assert lost.message.startswith("b: no longer used: 4 blocks in a row")
    assert "trial-failed" not in campaign.kinds()


def test_no_trial_fails_because_of_a_testbed_where_everything_fails(begin: Begin) -> None:
    worlds = {"b": {"effects": [failing("workload", low=1)]}}
    first = tuple({THREADS: number} for number in range(20, 30))
    search = {"arms": 5, "blocks_per_trial": 3, "max_trials": len(first)}
    document = several(
        names=NAMES[:2], worlds=worlds, found={THREADS: 9}, first=first, search=search
    )
    campaign = begin(document)
    assert campaign.run().campaign.state is CampaignState.FINISHED
    out = campaign.store.events(campaign.id, kinds=[EventKind.LEFT_OUT])
    assert max(Counter(event.data["trial"] for event in out).values()) > 1
    assert "trial-failed" not in campaign.kinds()
    assert campaign.kinds().count("testbed-lost") == 1
