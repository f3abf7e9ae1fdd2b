"""A campaign on several testbeds at once: as sound as on one, and faster."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.campaign.campaigns import (
    FAST,
    OTHER,
    THREADS,
    Campaign,
    Recorder,
    failing,
    faster,
)
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tests.unit.campaign.several import NAMES, batches, interrupted_at, several
from tuner.errors import ConflictError
from tuner.model import Answer, BlockKind, Configuration
from tuner.services.simulated import SimulatedTestbed
from tuner.states import BlockState, CampaignState, TrialState
from tuner.stop_signals import stop_signals

pytestmark = pytest.mark.slow


@ON_BOTH
def test_blocks_are_spread_and_each_is_whole(begin: Begin) -> None:
    campaign = begin(several(faster(), stop="budget"))
    recorder = Recorder()
    outcome = campaign.run(recorder)
    assert any("a: " in activity and "b: " in activity for activity in recorder.activities)
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


def test_four_testbeds_measure_three_and_a_half_times_as_much_as_one(begin: Begin) -> None:
    """Per unit of testbed time, if there is enough to measure."""
    sections: dict[str, Any] = {
        "noise": 0.12,
        "search": {"arms": 7, "max_trials": 400, "sampler": "random"},
        "pilot": {"blocks": 8},
        "budget": {"wall_time": "4m"},
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
    # In virtual time, only restarts and the workload take time, and waiting is no overhead.
    assert together.time_use.overhead_share == pytest.approx(0.0, abs=0.01)


def decisions(campaign: Campaign) -> object:
    answer = campaign.store.campaign(campaign.id).recommendation
    assert answer is not None
    # A slot that is measured again leaves out trials that have failed meanwhile.
    failed = {t.number for t in campaign.trials if t.state is TrialState.FAILED}
    return (
        [(t.configuration, t.round, t.origin, t.state) for t in campaign.trials],
        (answer.answer, answer.trial, answer.configuration),
        Counter(
            (b.kind, b.round, b.slot, frozenset(b.order) - failed)
            for b in campaign.blocks
            if b.state is BlockState.COMPLETE
        ),
    )


@ON_BOTH
def test_the_same_campaign_again_decides_the_same(begin: Begin) -> None:
    """However its threads are scheduled."""
    one, again = begin(several(faster())), begin(several(faster()))
    one.run()
    again.run()
    assert decisions(one) == decisions(again)
    assert [b.order for b in one.blocks] == [b.order for b in again.blocks]


@ON_BOTH
def test_cut_off_in_the_middle_it_decides_the_same(begin: Begin) -> None:
    # A repeated measurement is drawn anew, which makes no difference without noise. A slot with
    # only failed trials is not measured again, so each slot has two trials.
    whole = begin(
        several(
            faster(),
            failing("start", low=250),
            names=NAMES[:2],
            noise=0.0,
            first=({THREADS: 256}, FAST, OTHER),
            stop="budget",
            search={"arms": 3, "blocks_per_trial": 3, "max_trials": 4, "sampler": "random"},
        )
    )
    assert whole.run().error is None
    for stop_at in (30, 77, 120):
        campaign = begin(whole.spec)
        cut_off(campaign, stop_at)
        before = {b.number: b for b in campaign.blocks if b.state is BlockState.COMPLETE}
        assert campaign.run().campaign.state is CampaignState.FINISHED
        after = {b.number: b for b in campaign.blocks}
        assert all(after[number] == block for number, block in before.items())
        assert any(b.state is BlockState.VOID for b in after.values())
        assert decisions(campaign) == decisions(whole)


class StopNow(Exception):
    """A defect, raised on any testbed."""


def cut_off(campaign: Campaign, at: int) -> None:
    """Run a campaign until one of its testbeds raises a defect, at a call of its observer."""

    def stop(count: int) -> None:
        if count >= at and threading.current_thread() is not threading.main_thread():
            raise StopNow

    with pytest.raises(StopNow):
        campaign.run(Recorder(stop))
    assert campaign.testbed is not None
    assert campaign.testbed.settings == Configuration()


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
    sections: dict[str, Any] = {
        "stop": "budget",
        "search": {"arms": 2, "blocks_per_trial": 12, "max_trials": 2},
    }
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
    kinds = Counter((b.kind, b.round) for b in campaign.blocks)
    assert max(kinds.values()) <= 12
    assert sum(len(b.measurements) for b in campaign.blocks) <= 200


@ON_BOTH
def test_the_list_of_testbeds_is_part_of_the_identity(begin: Begin) -> None:
    campaign = begin(several(faster()))
    with stop_signals():
        campaign.run(Recorder(interrupted_at(60)))
    assert any(b.measurements for b in campaign.blocks)
    fewer = replace(campaign, spec=several(faster(), names=NAMES[:3]))
    prepared = replace(campaign.prepared(), aspects=_prepared(fewer).aspects)
    campaign.prepared = lambda: prepared  # type: ignore[method-assign]
    with pytest.raises(ConflictError, match=r"testbed \(testbeds.simulated d is gone\)"):
        campaign.run()


def _prepared(campaign: Campaign) -> Any:
    from tuner.compose import prepare

    return prepare(campaign.spec, campaign.directory)
