"""A campaign on several testbeds at once: as sound as on one, faster, and as hard to kill."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.campaign.campaigns import (
    FAST,
    OTHER,
    SHORT_SEARCH,
    THREADS,
    Campaign,
    Recorder,
    failing,
    faster,
    spec,
)
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.stopping import FINISHING, stop_signals
from tuner.errors import ConflictError, TestbedError, TransportError
from tuner.model import Answer, Block, BlockKind, Configuration
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated import testbed as simulated
from tuner.states import BlockState, CampaignState, TrialState

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c", "d")


def several(
    *effects: dict[str, object],
    names: Sequence[str] = NAMES,
    worlds: Mapping[str, Mapping[str, object]] | None = None,
    **sections: Any,
) -> CampaignSpec:
    """As ``spec``, on testbeds with these names, each with its own noise. ``worlds``: individual
    differences, by name.
    """
    document = spec(*effects, **sections).model_dump(exclude_none=True)
    world = document.pop("testbed")["simulated"]
    document["testbeds"] = [
        {"simulated": {**world, "name": name, "seed": seed, **(worlds or {}).get(name, {})}}
        for seed, name in enumerate(names, start=1)
    ]
    return CampaignSpec.model_validate(document)


def batches(blocks: Sequence[Block]) -> dict[int, list[Block]]:
    by_batch: dict[int, list[Block]] = {}
    for block in blocks:
        assert block.batch is not None
        by_batch.setdefault(block.batch, []).append(block)
    return by_batch


def decisions(campaign: Campaign) -> object:
    answer = campaign.store.campaign(campaign.id).recommendation
    assert answer is not None
    # A slot that is measured again leaves out trials that have failed meanwhile.
    failed = {t.number for t in campaign.trials if t.state is TrialState.FAILED}
    return (
        [(t.configuration, t.race, t.origin, t.state) for t in campaign.trials],
        (answer.answer, answer.trial, answer.configuration),
        Counter(
            (b.kind, b.race, b.slot, frozenset(b.order) - failed)
            for b in campaign.blocks
            if b.state is BlockState.COMPLETE
        ),
    )


@ON_BOTH
def test_blocks_are_spread_and_each_is_whole(begin: Begin) -> None:
    campaign = begin(several(faster()))
    outcome = campaign.run()
    assert outcome.error is None
    assert outcome.campaign.recommendation is not None
    assert outcome.campaign.recommendation.answer is Answer.RECOMMENDED
    assert outcome.campaign.recommendation.configuration.as_dict()[THREADS] == 200
    assert {b.testbed for b in campaign.blocks} == {f"simulated {name}" for name in NAMES}
    for block in campaign.blocks:
        assert block.state is BlockState.COMPLETE
        assert tuple(m.trial for m in block.measurements) == block.order
    for group in batches(campaign.blocks).values():
        assert len({b.testbed for b in group}) == len(group) <= len(NAMES)
        if group[0].kind is not BlockKind.SEARCH:
            assert len({frozenset(b.order) for b in group}) == 1
        assert [b.slot for b in group] == list(range(len(group)))
    assert len(outcome.restored) == 2 * len(NAMES)
    assert "a: fileserver: as found" in outcome.restored
    ready = [e for e in campaign.store.events(campaign.id) if e.kind == "testbed-ready"]
    assert [e.data["testbed"] for e in ready] == [f"simulated {name}" for name in NAMES]


@pytest.mark.slow
def test_four_testbeds_measure_three_and_a_half_times_as_much_as_one(begin: Begin) -> None:
    """Per unit of testbed time, if there is enough to measure."""
    sections: dict[str, Any] = {
        "noise": 0.12,
        "search": {"arms": 3, "max_trials": 400, "sampler": "random"},
        "pilot": {"blocks": 40},
        "budget": {"wall_time": "12m"},
    }
    one = begin(several(faster(-0.1), names=NAMES[:1], **sections))
    four = begin(several(faster(-0.1), **sections))
    alone, together = one.run().campaign, four.run().campaign
    runs = [sum(len(b.measurements) for b in each.blocks) for each in (one, four)]
    rates = [n / c.time_use.wall_s for n, c in zip(runs, (alone, together), strict=True)]
    assert rates[1] / rates[0] >= 3.5
    slowest = Counter[str | None]()
    for block in four.blocks:
        slowest[block.testbed] += block.duration_s  # type: ignore[assignment]
    assert together.time_use.wall_s >= max(slowest.values())
    assert together.time_use.overhead_share < 0.1


@ON_BOTH
def test_the_same_campaign_again_decides_the_same(begin: Begin) -> None:
    """However its threads are scheduled."""
    one, again = begin(several(faster())), begin(several(faster()))
    one.run()
    again.run()
    assert decisions(one) == decisions(again)
    assert [b.order for b in one.blocks] == [b.order for b in again.blocks]


@ON_BOTH
@pytest.mark.parametrize("stop_at", [30, 77, 140])
def test_cut_off_in_the_middle_it_decides_the_same(begin: Begin, stop_at: int) -> None:
    # A repeated measurement is drawn anew, which makes no difference without noise. A slot with
    # only failed trials is not measured again, so each slot has two trials.
    whole = begin(
        several(
            faster(),
            failing("start", low=250),
            names=NAMES[:2],
            noise=0.0,
            first=({THREADS: 256}, FAST, OTHER),
            search={"arms": 3, "blocks_per_trial": 5, "max_trials": 4, "sampler": "random"},
        )
    )
    assert whole.run().error is None
    campaign = begin(whole.spec)

    def stop(count: int) -> None:
        if count >= stop_at and threading.current_thread() is not threading.main_thread():
            raise StopNow

    with pytest.raises(StopNow):
        campaign.run(Recorder(stop))
    assert campaign.testbed is not None
    assert campaign.testbed.settings == Configuration()
    before = {b.number: b for b in campaign.blocks if b.state is BlockState.COMPLETE}
    assert campaign.run().campaign.state is CampaignState.FINISHED
    after = {b.number: b for b in campaign.blocks}
    assert all(after[number] == block for number, block in before.items())
    assert any(b.state is BlockState.VOID for b in after.values())
    assert decisions(campaign) == decisions(whole)


class StopNow(Exception):
    """A defect, raised on any testbed."""


def interrupted_at(call: int) -> Callable[[int], None]:
    """Return a function that sends this process a stop signal at a call, from any thread."""

    def stop(count: int) -> None:
        if count == call:
            os.kill(os.getpid(), signal.SIGINT)

    return stop


@ON_BOTH
def test_ctrl_c_pauses_and_every_testbed_is_restored(begin: Begin) -> None:
    campaign = begin(several(faster()))
    with stop_signals():
        outcome = campaign.run(Recorder(interrupted_at(100)))
    assert outcome.campaign.state is CampaignState.PAUSED
    assert outcome.campaign.reason == "stopped by SIGINT"
    assert not any(b.state is BlockState.RUNNING for b in campaign.blocks)
    assert len(outcome.restored) == 2 * len(NAMES)
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_the_first_ctrl_c_lets_the_runs_of_all_testbeds_finish(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(several(faster()))
    real = simulated._SimulatedEngine.run
    starts, ends, all_run = list[str](), list[str](), threading.Barrier(len(NAMES))

    def run(engine: simulated._SimulatedEngine, run_id: str, *rest: Any) -> Any:
        starts.append(run_id)
        if len(starts) <= len(NAMES) and all_run.wait(60.0) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        report = real(engine, run_id, *rest)
        ends.append(run_id)
        return report

    monkeypatch.setattr(simulated._SimulatedEngine, "run", run)
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


def lose(monkeypatch: pytest.MonkeyPatch, seed: int, runs: int, back_after: int = 10**9) -> None:
    """Let the testbed whose world has this seed stop answering after ``runs`` runs."""
    real = simulated._SimulatedEngine.run
    counts = Counter[int]()

    def run(engine: simulated._SimulatedEngine, *arguments: Any) -> Any:
        counts[engine.world.seed] += 1
        if engine.world.seed == seed and runs < counts[seed] <= back_after:
            raise TransportError("no answer")
        return real(engine, *arguments)

    monkeypatch.setattr(simulated._SimulatedEngine, "run", run)


@ON_BOTH
def test_a_campaign_continues_without_a_lost_testbed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(monkeypatch, seed=3, runs=5)
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
    lose(monkeypatch, seed=3, runs=5, back_after=6)
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


def test_a_campaign_continues_without_a_testbed_that_cannot_be_opened(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SimulatedTestbed.open

    def failing_open(testbed: SimulatedTestbed, *arguments: Any) -> Any:
        if testbed._world.seed == 2:
            raise TransportError("no route")
        return real(testbed, *arguments)

    monkeypatch.setattr(SimulatedTestbed, "open", failing_open)
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


def test_a_baseline_that_fails_everywhere_ends_the_campaign(begin: Begin) -> None:
    campaign = begin(several(failing("workload", low=1), found={THREADS: 9}))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert "the campaign halted" in outcome.campaign.reason
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
    assert lost.message.startswith("b: no longer used: the campaign halted: 4 blocks in a row")
    assert "trial-failed" not in campaign.kinds()


def test_programs_and_settings_must_be_alike(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    other = begin(several(faster(), worlds={"c": {"found": {THREADS: 9}}})).run()
    assert isinstance(other.error, ConflictError)
    assert "not equivalent: c differs from a: setting fileserver.threads is 9, not not set" in str(
        other.error
    )
    real = SimulatedTestbed.open

    def upgraded(testbed: SimulatedTestbed, *arguments: Any) -> Any:
        bench = real(testbed, *arguments)
        if testbed._world.seed == 2:
            for part in testbed._parts.values():
                part.identity = "simulated 2"
        return bench

    monkeypatch.setattr(SimulatedTestbed, "open", upgraded)
    outcome = begin(several(faster())).run()
    assert isinstance(outcome.error, ConflictError)
    assert "program fileserver is simulated 2, not simulated" in str(outcome.error)
    assert len(outcome.restored) == 2 * len(NAMES)


def test_a_testbed_with_a_different_effect_causes_a_warning(begin: Begin) -> None:
    sections: dict[str, Any] = {"search": {"arms": 2, "max_trials": 2}}
    odd = {"d": {"effects": [faster(-0.02)]}}
    campaign = begin(several(faster(-0.2), worlds=odd, **sections))
    answer = campaign.run().campaign.recommendation
    assert answer is not None
    warned = [e for e in campaign.store.events(campaign.id) if e.kind == "testbed-effect"]
    assert warned
    assert "on simulated d" in warned[0].message
    assert any("the testbeds show different effects" in note for note in answer.notes)


def test_similar_testbeds_cause_no_warning(begin: Begin) -> None:
    """A testbed that is noisier than the others, or whose times vary together, is no reason to
    warn.
    """
    worlds = {"d": {"noise": 0.008, "block_noise": 0.2}}
    campaign = begin(several(faster(), worlds=worlds))
    campaign.run()
    assert "testbed-effect" not in campaign.kinds()


def test_a_pilot_runs_on_every_testbed(begin: Begin) -> None:
    campaign = begin(several(faster(), pilot={"blocks": 20}))
    assert campaign.run().error is None
    pilot = Counter(b.testbed for b in campaign.blocks if b.kind is BlockKind.PILOT)
    assert len(pilot) == len(NAMES)
    assert min(pilot.values()) >= 2


def test_no_more_blocks_than_asked_for(begin: Begin) -> None:
    campaign = begin(several(noise=0.05, budget={"measurements": 200}))
    campaign.run()
    kinds = Counter((b.kind, b.race) for b in campaign.blocks)
    assert max(kinds.values()) <= 12
    assert sum(len(b.measurements) for b in campaign.blocks) <= 200


def test_current_activity_names_the_testbeds(begin: Begin) -> None:
    recorder = Recorder()
    begin(several(faster())).run(recorder)
    assert any("a: " in activity and "b: " in activity for activity in recorder.activities)


@ON_BOTH
def test_the_list_of_testbeds_is_part_of_the_identity(begin: Begin) -> None:
    campaign = begin(several(faster()))
    with stop_signals():
        campaign.run(Recorder(interrupted_at(100)))
    assert any(b.measurements for b in campaign.blocks)
    fewer = replace(campaign, spec=several(faster(), names=NAMES[:3]))
    prepared = replace(campaign.prepared(), aspects=_prepared(fewer).aspects)
    campaign.prepared = lambda: prepared  # type: ignore[method-assign]
    outcome = campaign.run()
    assert isinstance(outcome.error, ConflictError)
    assert "testbed (testbeds.simulated d is gone)" in str(outcome.error)


def _prepared(campaign: Campaign) -> Any:
    from tuner.compose import prepare

    return prepare(campaign.spec, campaign.directory)
