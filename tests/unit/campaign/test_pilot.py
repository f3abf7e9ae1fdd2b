"""The pilot of a campaign and the guards during it, on the simulated testbed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.campaign.campaigns import spec
from tests.unit.campaign.places import Place
from tuner.compose import look_up
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.pilot import PilotBlock, PilotRules
from tuner.model import Answer, BlockKind
from tuner.plan.economy import first_fresh_blocks, fresh_blocks
from tuner.plan.piloting import _most_blocks
from tuner.plan.rules import rules_of
from tuner.states import CampaignState, TrialState
from tuner.store import Store

pytestmark = pytest.mark.slow

CAMPAIGN = """
name: pilot
testbed: {{simulated: {{noise: {noise}, effects: [{effect}]}}}}
spaces:
  cache_manager: {{name: openafs-cache-manager-fuse-1.8, only: [daemons]}}
workload: mixed-use
budget: {{wall_time: {wall_time}}}
search: {{arms: 2, blocks_per_trial: 3, max_trials: 2}}
stop: certified
pilot: {{blocks: {blocks}}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    usual = {
        "noise": 0.01,
        "effect": "{parameter: cache_manager.daemons, low: 1, change: -0.2}",
        "wall_time": "2h",
        "blocks": 12,
    }
    return Place(tmp_path, CAMPAIGN, usual)


def test_a_campaign_begins_with_its_pilot_and_uses_it_for_nothing_else(place: Place) -> None:
    place.write()
    assert place.fstune("run", str(place.file)).exit_code == 0
    kinds = place.kinds()
    first_search = kinds.index(BlockKind.SEARCH)
    assert first_search >= 3
    assert set(kinds[:first_search]) == {BlockKind.PILOT}
    assert BlockKind.PILOT not in kinds[first_search:]
    with Store.open(place.state) as store:
        campaign = store.campaign("last")
        twin = store.trials(campaign.id)[1]
        (event,) = [e for e in store.events(campaign.id) if e.kind == "pilot"]
    assert twin.origin == "pilot"
    assert twin.state is TrialState.COMPLETE
    assert event.data["outcome"] == "sound"
    assert event.data["blocks"] == first_search
    assert campaign.recommendation is not None
    assert campaign.recommendation.trial in (2, 3)


def test_pilot_alone_pauses_and_resume_begins_the_search(place: Place) -> None:
    place.write()
    done = place.fstune("pilot", str(place.file))
    assert done.exit_code == 0, done.output
    assert "The testbed is sound: the baseline equals its twin" in done.output
    assert "or more, with 80% power" in done.output
    assert set(place.kinds()) == {BlockKind.PILOT}
    with Store.open(place.state) as store:
        assert store.campaign("last").state is CampaignState.PAUSED
    measured = len(place.kinds())
    assert place.fstune("resume").exit_code == 0
    kinds = place.kinds()
    assert kinds.count(BlockKind.PILOT) == measured
    assert BlockKind.CERTIFY in kinds


def test_a_budget_too_small_to_certify_is_refused_unless_overridden(place: Place) -> None:
    place.write(wall_time="40s", blocks=3)
    done = place.fstune("run", str(place.file))
    assert done.exit_code != 0
    message = str(done.exception)
    assert "the pilot advises against: the budget leaves" in message
    assert "--override-pilot" in message
    assert BlockKind.SEARCH not in place.kinds()
    with Store.open(place.state) as store:
        assert store.campaign("last").state is CampaignState.FAILED
    place.fstune("resume", "--override-pilot")
    with Store.open(place.state) as store:
        assert store.campaign("last").state is CampaignState.FINISHED


def test_no_pilot_where_none_is_wanted(place: Place) -> None:
    place.write(blocks=0)
    assert place.fstune("run", str(place.file)).exit_code == 0
    assert BlockKind.PILOT not in place.kinds()
    assert "pilot.blocks is 0" in str(place.fstune("pilot", str(place.file)).exception)


def test_two_blocks_are_too_few_for_a_pilot(place: Place) -> None:
    place.write(blocks=2)
    message = str(place.fstune("run", str(place.file)).exception)
    assert "pilot.blocks: a pilot takes at least 3 blocks; 0 for no pilot" in message


def test_the_results_of_the_pilot_are_stored_as_events(place: Place) -> None:
    place.write(noise=0.2, blocks=6)
    place.fstune("run", str(place.file))
    with Store.open(place.state) as store:
        events = store.events(store.campaign("last").id)
    warnings = [e.message for e in events if e.kind == "pilot-warning"]
    assert any("choose a larger budget or floor" in warning for warning in warnings)
    assert json.dumps([dict(e.data) for e in events if e.kind == "pilot"])


def test_a_budget_that_ends_before_the_certificate_is_named_as_the_reason(place: Place) -> None:
    place.write(
        noise=0.1,
        effect="{parameter: cache_manager.daemons, low: 1, change: -0.08}",
        wall_time="2m",
        blocks=0,
    )
    assert place.fstune("run", str(place.file)).exit_code == 0
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.NO_IMPROVEMENT
    assert answer.reason.startswith("not certified within the budget: ")


def test_a_pilot_measures_no_more_than_the_budget_allows(place: Place) -> None:
    place.write(noise=0.3, wall_time="2h, measurements: 11")
    place.fstune("run", str(place.file))
    assert place.kinds() == [BlockKind.PILOT] * 3


@pytest.mark.parametrize(
    ("budget_s", "measurements", "blocks"),
    [(10_000.0, None, 20), (1000.0, None, 6), (600.0, None, 3), (60.0, None, 3), (10_000.0, 40, 8)],
)
def test_a_pilot_leaves_room_for_the_search_and_the_certification(
    budget_s: float, measurements: int | None, blocks: int
) -> None:
    """Each of its blocks takes a minute."""
    rules = PilotRules(
        weights=(1.0,),
        delta=0.02,
        floor=0.05,
        max_blocks=20,
        budget_s=budget_s,
        arms=4,
        certify_blocks=20,
        certify_share=0.5,
        budget_measurements=measurements,
    )
    assert _most_blocks(rules, [PilotBlock((1.0,), (1.0,), True, 60.0)] * 3) == blocks


@pytest.mark.parametrize(
    ("testbeds", "arms", "finalists", "most", "share", "override"),
    [
        (1, 8, 1, 20, 0.4, False),
        (1, 8, 1, 20, 0.1, True),
        (2, 8, 1, 20, 0.4, False),
        (2, 3, 2, 4, 0.4, True),
        (3, 1, 1, 5, 0.7, False),
        (3, 8, 5, 3, 0.1, True),
    ],
)
def test_after_the_longest_pilot_there_is_room_whenever_the_plan_says_so(
    testbeds: int, arms: int, finalists: int, most: int, share: float, override: bool
) -> None:
    halls = [{"simulated": {"name": f"hall {number}"}} for number in range(testbeds)]
    one = testbeds == 1
    campaign_spec = spec(
        pilot={"blocks": most, "override": override},
        search={"arms": arms},
        certification={"finalists": finalists, "share": share},
        testbed=halls[0] if one else None,
        testbeds=() if one else halls,
    )
    rules = rules_of(campaign_spec, look_up(campaign_spec).workload)
    assert rules.pilot is not None
    for measurements in range(6, 250):
        pilot = replace(rules.pilot, budget_measurements=measurements)
        rules = replace(rules, budget_measurements=measurements, pilot=pilot)
        blocks = 0
        while blocks < _most_blocks(pilot, []):
            blocks += min(testbeds, most - blocks)
        left = measurements - 2 * blocks - testbeds * (1 + arms)
        fits = left >= 0 and fresh_blocks(left, rules) >= MIN_PAIRS
        allowed = override or pilot.certify_room(measurements) >= MIN_PAIRS
        expected = first_fresh_blocks(measurements, rules) >= MIN_PAIRS
        assert (fits and allowed) == expected, measurements
