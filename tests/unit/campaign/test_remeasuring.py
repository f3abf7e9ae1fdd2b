"""Disturbed arms are measured again, whatever their times were."""

from __future__ import annotations

import signal

import pytest

from tests.unit.campaign.campaigns import Campaign, faster, sends, spec
from tests.unit.campaign.conftest import Begin
from tuner.judge.disturbed import MIN_ARMS, MOST_IN_BLOCK, MOST_SHARE
from tuner.measure.covariates import covariates
from tuner.model import BlockKind
from tuner.plan.rules import stored_rules
from tuner.run.remeasuring import Usual
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState, EventKind
from tuner.stop_signals import stop_signals

pytestmark = pytest.mark.slow


def disturbed(effect: float = 0.5, mean: float = 0.1) -> CampaignSpec:
    """A testbed on which other load is rare but heavy."""
    load = {"mean": mean, "sd": 20.0 * mean, "correlation": 0.0, "effect": effect}
    simulated = {"noise": 0.004, "effects": [faster()], "others": load}
    return spec(
        testbed={"simulated": simulated},
        search={"arms": 4, "max_trials": 6},
        budget={"wall_time": "15m", "measurements": 60},
    )


def usual(campaign: Campaign, testbed: str | None) -> Usual:
    rules = stored_rules(campaign.store.campaign(campaign.id))
    return Usual.of_campaign(campaign.store, campaign.id, testbed, rules)


def test_a_disturbed_arm_is_measured_again_at_the_end_of_its_block(begin: Begin) -> None:
    campaign = begin(disturbed())
    assert campaign.run().campaign.state is CampaignState.FINISHED
    again = [e for e in campaign.store.events(campaign.id) if e.kind == EventKind.MEASURED_AGAIN]
    assert again
    blocks = {b.number: b for b in campaign.blocks}
    per_block: dict[object, int] = {}
    for event in again:
        block = blocks[int(str(event.data["block"]))]
        per_block[block.number] = per_block.get(block.number, 0) + 1
        assert "measured again: processor time used by others" in event.message
        if block.state is not BlockState.COMPLETE:
            continue
        assert sorted(m.trial for m in block.measurements) == sorted(block.order)
        (arm,) = (m for m in block.measurements if m.trial == event.data["trial"])
        assert arm.position >= len(block.order)
        assert event.data["first_metadata_s"] != arm.components["metadata"].elapsed_s
        assert covariates(arm.diagnostics)["others_server"] != event.data["others_server"]
    assert max(per_block.values()) <= MOST_IN_BLOCK
    arms = sum(len(b.measurements) for b in blocks.values())
    assert len(again) <= 1 + MOST_SHARE * arms


def test_repeating_an_arm_does_not_depend_on_its_times(begin: Begin) -> None:
    """The first repeated arm of each campaign is at the same place, whether the load slows it or
    not.
    """
    first = []
    for effect in (0.0, 0.5):
        campaign = begin(disturbed(effect))
        campaign.run()
        events = campaign.store.events(campaign.id, kinds=[EventKind.MEASURED_AGAIN])
        block = campaign.blocks[int(str(events[0].data["block"])) - 1]
        first.append((block.number, block.order.index(int(str(events[0].data["trial"])))))
    assert first[0] == first[1]


def test_fresh_blocks_are_never_repeated(begin: Begin) -> None:
    """A configuration that causes load when it is slow would lose exactly its slow runs."""
    campaign = begin(disturbed())
    campaign.run()
    again = campaign.store.events(campaign.id, kinds=[EventKind.MEASURED_AGAIN])
    fresh = {b.number: b for b in campaign.blocks if b.kind is BlockKind.CERTIFY}
    assert fresh
    assert not [event for event in again if event.data["block"] in fresh]
    # There was reason to.
    usual_here = usual(campaign, campaign.blocks[0].testbed)
    usual_here.again = 0
    arms = [{arm.trial: arm for arm in block.measurements} for block in fresh.values()]
    assert any(usual_here.disturbed(each, usual_here.limits(), 0) for each in arms)


def test_without_counters_nothing_is_measured_again(begin: Begin) -> None:
    campaign = begin(spec(faster(), noise=0.3))
    campaign.run()
    assert EventKind.MEASURED_AGAIN not in campaign.kinds()


def test_the_usual_load_is_restored_after_an_interruption(begin: Begin) -> None:
    campaign = begin(disturbed())
    with stop_signals():
        campaign.run(sends(150, signal.SIGINT))
    before = usual(campaign, campaign.blocks[0].testbed)
    assert len(before.earlier) >= MIN_ARMS
    complete = [b for b in campaign.blocks if b.state is BlockState.COMPLETE]
    assert len(before.earlier) == sum(len(b.measurements) for b in complete)
    assert before.again == campaign.kinds().count(EventKind.MEASURED_AGAIN)
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_every_testbed_has_its_own_usual_load(begin: Begin) -> None:
    campaign = begin(disturbed())
    with stop_signals():
        campaign.run(sends(60, signal.SIGINT))
    assert usual(campaign, campaign.blocks[0].testbed) != Usual()
    assert usual(campaign, "elsewhere") == Usual()
