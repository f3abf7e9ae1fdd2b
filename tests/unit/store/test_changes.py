"""The changes that the store accepts and refuses, and the events that it stores for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.unit.store import records
from tuner.errors import ConflictError, NotFoundError
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import NewEvent, Store
from tuner.time_use import TimeUse

LATER = records.NOON + timedelta(hours=1)


def everything(store: Store, campaign: str) -> tuple[object, ...]:
    record = store.campaign(campaign)
    return record, store.trials(campaign), store.blocks(campaign), store.events(campaign)


@pytest.mark.slow
def test_every_change_has_its_event(store: Store) -> None:
    campaign = store.create_campaign("c", "{}", 1, records.NOON).id
    events = [
        store.move_campaign(campaign, CampaignState.RUNNING, "begun", records.event("a")),
        store.set_baseline(campaign, records.BASELINE_CONFIGURATION, records.event("b")),
        *store.add_trials(campaign, [(records.trial(0), records.event("c"))]),
        *store.add_trials(campaign, [(records.trial(1, TrialState.QUEUED), records.event("d"))]),
        store.move_trial(campaign, 1, TrialState.RUNNING, "its turn", records.event("e")),
        store.begin_block(campaign, records.block(1), records.event("f")),
        store.add_measurement(campaign, 1, records.measurement(0), records.event("g")),
        store.end_block(campaign, 1, BlockState.COMPLETE, "", 1.0, records.event("h")),
        store.save_recommendation(campaign, records.recommendation(), records.event("i")),
        store.add_event(campaign, records.event("j", LATER)),
    ]
    assert store.events(campaign, after=1) == events
    assert [e.number for e in store.events(campaign)] == list(range(1, 12))
    assert "".join(e.kind for e in events if e) == "abcdefghij"
    record = store.campaign(campaign)
    assert (record.state, record.reason) == (CampaignState.RUNNING, "begun")
    assert record.updated == LATER
    moved = store.trials(campaign)[1]
    assert (moved.state, moved.reason) == (TrialState.RUNNING, "its turn")


def test_events_are_numbered_in_each_campaign(store: Store) -> None:
    campaigns = [records.new_campaign(store, trials=0) for _ in range(2)]
    for _ in range(3):
        for campaign in campaigns:
            store.add_event(campaign, records.event())
    for campaign in campaigns:
        assert [e.number for e in store.events(campaign)] == [1, 2, 3, 4]


def test_events_in_pages(store: Store) -> None:
    campaign = records.new_campaign(store, trials=5)
    numbers = [e.number for e in store.events(campaign, after=2, limit=3)]
    assert numbers == [3, 4, 5]
    assert store.events(campaign, after=6) == []
    assert store.events(campaign, limit=0) == []


Change = Callable[[Store, str], object]

REFUSED: dict[str, Change] = {
    "campaign finished before it ran": lambda store, campaign: store.move_campaign(
        campaign, CampaignState.FINISHED, "", records.event()
    ),
    "another baseline": lambda store, campaign: store.set_baseline(
        campaign, records.CANDIDATE, records.event()
    ),
    "second trial of a number": lambda store, campaign: store.add_trials(
        campaign, [(records.trial(1), records.event())]
    ),
    "running trial queued": lambda store, campaign: store.move_trial(
        campaign, 1, TrialState.QUEUED, "", records.event()
    ),
    "second block of a number": lambda store, campaign: store.begin_block(
        campaign, records.block(1), records.event()
    ),
    "second running block": lambda store, campaign: store.begin_block(
        campaign, records.block(3), records.event()
    ),
    "second measurement of an arm": lambda store, campaign: store.add_measurement(
        campaign, 2, records.measurement(0, 7), records.event()
    ),
    "second measurement at a position": lambda store, campaign: store.add_measurement(
        campaign, 2, records.measurement(1, 0), records.event()
    ),
    "measurement of no arm": lambda store, campaign: store.add_measurement(
        campaign, 2, records.measurement(2, 1), records.event()
    ),
    "measurement in an ended block": lambda store, campaign: store.add_measurement(
        campaign, 1, records.measurement(1, 1), records.event()
    ),
    "infinite time": lambda store, campaign: store.add_measurement(
        campaign,
        2,
        replace(records.measurement(1, 1), workload_s=float("inf")),
        records.event(),
    ),
    "ended block ended": lambda store, campaign: store.end_block(
        campaign, 1, BlockState.VOID, "", 1.0, records.event()
    ),
}


def campaign_with_blocks(store: Store) -> str:
    """Return a campaign with an ended and a running block, each measured once."""
    new = records.new_campaign(store, trials=3)
    store.set_baseline(new, records.BASELINE_CONFIGURATION, records.event())
    for number in (1, 2):
        store.begin_block(new, records.block(number), records.event())
        store.add_measurement(new, number, records.measurement(0), records.event())
        if number == 1:
            store.end_block(new, 1, BlockState.COMPLETE, "", 1.0, records.event())
    store.save_recommendation(new, records.recommendation(), records.event())
    return new


@pytest.fixture
def campaign(store: Store) -> str:
    return campaign_with_blocks(store)


@pytest.fixture(scope="module")
def same_campaign(shared: Store) -> str:
    """Return such a campaign, shared by tests of which none may leave a trace."""
    return campaign_with_blocks(shared)


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_refused_change_leaves_no_trace(shared: Store, same_campaign: str, change: Change) -> None:
    before = everything(shared, same_campaign)
    with pytest.raises(ConflictError):
        change(shared, same_campaign)
    assert everything(shared, same_campaign) == before


def test_a_later_recommendation_takes_the_place_of_an_earlier_one(
    store: Store, campaign: str
) -> None:
    first = records.recommendation()
    assert store.campaign(campaign).recommendation == first
    later = replace(first, trial=2, ratio=0.8, components={"copy": first.components["copy"]})
    store.save_recommendation(campaign, later, records.event())
    assert store.campaign(campaign).recommendation == later


MISTAKES: dict[str, Change] = {
    "event that is no JSON": lambda store, campaign: store.move_trial(
        campaign,
        1,
        TrialState.COMPLETE,
        "",
        NewEvent(records.NOON, "k", "m", {"e": float("inf")}),
    ),
    "no number": lambda store, campaign: store.add_measurement(
        campaign,
        2,
        replace(records.measurement(1, 1), apply_s=float("nan")),
        records.event(),
    ),
    "diagnostic without a number": lambda store, campaign: store.add_measurement(
        campaign,
        2,
        replace(records.measurement(1, 1), diagnostics={"x": float("nan")}),
        records.event(),
    ),
    "time without a zone": lambda store, campaign: store.add_event(
        campaign,
        NewEvent(datetime(2026, 1, 1), "k", "m"),  # noqa: DTZ001
    ),
    "block that has ended": lambda store, campaign: store.begin_block(
        campaign, replace(records.block(3), state=BlockState.COMPLETE), records.event()
    ),
    "block that is measured": lambda store, campaign: store.begin_block(
        campaign,
        replace(records.block(3), measurements=(records.measurement(0),)),
        records.event(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake_leaves_no_trace(shared: Store, same_campaign: str, mistake: Change) -> None:
    before = everything(shared, same_campaign)
    with pytest.raises(ValueError):  # noqa: PT011
        mistake(shared, same_campaign)
    assert everything(shared, same_campaign) == before


UNKNOWN: dict[str, Change] = {
    "trials": lambda store, _: store.trials("none"),
    "blocks": lambda store, _: store.blocks("none"),
    "events": lambda store, _: store.events("none"),
    "time use": lambda store, _: store.add_time_use("none", TimeUse()),
    "event": lambda store, _: store.add_event("none", records.event()),
    "trial": lambda store, campaign: store.move_trial(
        campaign, 9, TrialState.COMPLETE, "", records.event()
    ),
    "block": lambda store, campaign: store.end_block(
        campaign, 9, BlockState.VOID, "", 0.0, records.event()
    ),
    "block of a measurement": lambda store, campaign: store.add_measurement(
        campaign, 9, records.measurement(0), records.event()
    ),
}


@pytest.mark.parametrize("change", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_unknown_campaign_trial_or_block(shared: Store, same_campaign: str, change: Change) -> None:
    before = everything(shared, same_campaign)
    with pytest.raises(NotFoundError, match=r"there is no (campaign none|trial 9|block 9)"):
        change(shared, same_campaign)
    assert everything(shared, same_campaign) == before


def test_same_baseline_again_changes_nothing(store: Store, campaign: str) -> None:
    before = everything(store, campaign)
    assert store.set_baseline(campaign, records.BASELINE_CONFIGURATION, records.event()) is None
    assert everything(store, campaign) == before


def test_running_block_is_voided_once(store: Store, campaign: str) -> None:
    assert store.void_running_blocks(campaign, "killed", records.event("void")) == (2,)
    complete, void = store.blocks(campaign)
    assert complete.state is BlockState.COMPLETE
    assert (void.state, void.reason) == (BlockState.VOID, "killed")
    assert len(void.measurements) == 1
    assert store.events(campaign)[-1].kind == "void"

    before = everything(store, campaign)
    assert store.void_running_blocks(campaign, "killed", records.event("void")) == ()
    assert everything(store, campaign) == before
    store.begin_block(campaign, records.block(3), records.event())


def test_killed_campaign_is_resumed(store: Store) -> None:
    campaign = records.new_campaign(store)
    for state in (CampaignState.RUNNING, CampaignState.RUNNING, CampaignState.CANCELLED):
        store.move_campaign(campaign, state, f"to {state}", records.event())
    assert store.campaign(campaign).reason == "to cancelled"


@pytest.mark.parametrize(
    "end", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAILED, TrialState.CANCELLED]
)
def test_trial_ends_once(store: Store, end: TrialState) -> None:
    campaign = records.new_campaign(store)
    store.move_trial(campaign, 1, end, "over", records.event())
    with pytest.raises(ConflictError, match=f"trial 1 of campaign {campaign} is {end}"):
        store.move_trial(campaign, 1, TrialState.RUNNING, "again", records.event())
    assert [t.state for t in store.trials(campaign)] == [TrialState.RUNNING, end]


@pytest.mark.parametrize("end", [TrialState.COMPLETE, TrialState.PRUNED])
def test_a_finalist_whose_search_is_over_can_still_fail(store: Store, end: TrialState) -> None:
    campaign = records.new_campaign(store)
    store.move_trial(campaign, 1, end, "over", records.event())
    store.move_trial(campaign, 1, TrialState.FAILED, "it does not start", records.event())
    moved = store.trials(campaign)[1]
    assert (moved.state, moved.reason) == (TrialState.FAILED, "it does not start")


def test_newest_campaign_is_first(store: Store) -> None:
    times = [records.NOON + timedelta(seconds=s) for s in (5, 0, 9)]
    campaigns = [store.create_campaign(f"c{at.second}", "{}", 0, at) for at in times]
    assert [c.name for c in store.campaigns()] == ["c9", "c5", "c0"]
    assert store.campaign("last") == campaigns[2]
    assert sorted((c.id for c in campaigns), reverse=True) == [c.id for c in store.campaigns()]


def test_campaign_by_the_beginning_of_its_identifier(store: Store) -> None:
    first = store.create_campaign("first", "{}", 0, records.NOON)
    assert store.campaign("2") == first
    second = store.create_campaign("second", "{}", 0, records.NOON + timedelta(days=1))
    assert store.campaign("20260302") == second
    assert store.campaign(first.id) == first
    with pytest.raises(NotFoundError, match=rf"2 identifiers begin with 2026.*{second.id}"):
        store.campaign("2026")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("nightlyy", "nearest is {} .nightly."),
        ("nightli", "nearest is {} .nightly."),
        ("nix", "see 'fstune list'$"),
        ("", "see 'fstune list'$"),
        ("%", "see 'fstune list'$"),
        ("Last", "see 'fstune list'$"),
    ],
)
def test_unknown_campaign_names_a_near_one(store: Store, wrong: str, message: str) -> None:
    with pytest.raises(
        NotFoundError, match=f"no campaign in {re.escape(store.where)}; start one: fstune run FILE$"
    ):
        store.campaign(wrong)
    nearest = store.create_campaign("nightly", "{}", 0, records.NOON)
    with pytest.raises(NotFoundError, match=message.format(nearest.id)) as caught:
        store.campaign(wrong)
    assert repr(wrong) in str(caught.value)


def test_nearest_of_several(store: Store) -> None:
    names = ("nightly", "weekly", "weekly", "hourly")
    campaigns = [
        store.create_campaign(name, "{}", 0, records.NOON + timedelta(days=day))
        for day, name in enumerate(names)
    ]
    with pytest.raises(NotFoundError, match=f"nearest is {campaigns[2].id} .weekly."):
        store.campaign("weekl")
    with pytest.raises(
        NotFoundError, match=f"2 campaigns are called 'weekly'.* {campaigns[2].id};"
    ):
        store.campaign("weekly")
    assert store.campaign("nightly") == campaigns[0]
    with pytest.raises(NotFoundError, match=f"nearest is {campaigns[0].id} .nightly."):
        store.campaign(campaigns[0].id[:-1] + "_")
