"""Testbeds shared by processes, requests to campaigns, and the basis of campaigns."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.errors import ConflictError, InUseError
from tuner.model import Aspect, Block, Holder, Lease, Prior, Request, Wish
from tuner.states import BlockState, CampaignState, EventKind, TrialState
from tuner.store import Store, problems, tables
from tuner.store.leases import REPEAT, Later
from tuner.time_use import TimeUse

HERE = Holder("here", "boot:1", 4711, 99)
THERE = Holder("there", "boot:2", 4711, 99)
LIMIT_S = 3600.0


def take(
    store: Store,
    campaign: str,
    testbed: str = "hall 7",
    holder: Holder = HERE,
    *,
    is_gone: bool = False,
    limit_s: float = LIMIT_S,
    later: Later = REPEAT,
) -> Lease:
    event = records.event("block-void")
    (taken,) = store.take_testbeds(
        campaign, [testbed], holder, limit_s, lambda _: is_gone, event, later
    )
    return taken


def running(store: Store) -> str:
    campaign = records.new_campaign(store)
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    return campaign


def block_on(lease: Lease, number: int = 1) -> Block:
    return replace(records.block(number), testbed=lease.testbed)


def test_running_campaigns_are_a_consistent_snapshot(store: Store) -> None:
    one, lost, leased = running(store), running(store), records.new_campaign(store)
    waiting = records.new_campaign(store)
    leases = {take(store, one).testbed, take(store, leased, "hall 8", THERE).testbed}
    request = Request(Wish.PAUSE, "desk", records.NOON)
    store.ask(one, request, records.event())
    snapshot = store.running()
    assert {campaign.id for campaign in snapshot.campaigns} == {one, lost, leased}
    assert {lease.testbed for lease in snapshot.leases} == leases
    assert snapshot.requests == {one: request}
    more = store.running(others=[waiting, one])
    assert {campaign.id for campaign in more.campaigns} == {one, lost, leased, waiting}


def test_a_testbed_is_leased_listed_and_given_back(store: Store) -> None:
    one, other = running(store), running(store)
    lease = take(store, one)
    (listed,) = store.leases()
    assert replace(listed, beat_age_s=0.0) == lease
    assert 0.0 <= listed.beat_age_s < LIMIT_S
    with pytest.raises(ConflictError, match=rf"testbed hall 7 is in use by campaign {one}: .*here"):
        take(store, other, holder=THERE)
    elsewhere = take(store, other, "hall 8", THERE)
    assert [each.testbed for each in store.leases()] == ["hall 7", "hall 8"]
    store.give_back(lease)
    store.give_back(lease)
    store.give_back(elsewhere)
    assert store.leases() == []
    take(store, other, holder=THERE)


def test_the_caller_says_what_to_do_when_a_testbed_is_in_use(store: Store) -> None:
    """Whatever the state of its campaign: applying what a paused one recommends resumes nothing."""
    paused, runs = running(store), running(store)
    store.move_campaign(paused, CampaignState.PAUSED, "", records.event())
    take(store, runs)
    with pytest.raises(ConflictError, match=r"; when it is free, repeat this$"):
        take(store, paused, holder=THERE)
    with pytest.raises(ConflictError, match=r"; when it has ended, repeat this$"):
        take(store, runs, holder=THERE)
    later = Later("wait", "watch")
    for campaign, todo in ((paused, "wait"), (runs, "watch")):
        with pytest.raises(ConflictError, match=f"; {todo}$"):
            take(store, campaign, holder=THERE, later=later)


def test_a_testbed_in_use_by_a_verification_says_so(store: Store) -> None:
    verification, other = running(store), running(store)
    store.add_event(verification, records.event(EventKind.VERIFICATION))
    take(store, verification)
    in_use = f"^testbed hall 7 is in use by verification {verification}: "
    with pytest.raises(InUseError, match=in_use):
        take(store, other, holder=THERE)


def test_a_campaign_whose_process_only_holds_its_testbed_is_not_said_to_run(store: Store) -> None:
    campaign = running(store)
    store.move_campaign(campaign, CampaignState.FINISHED, "", records.event())
    take(store, campaign)
    with pytest.raises(ConflictError, match=rf"^testbed hall 7 is in use by campaign {campaign}: "):
        take(store, campaign, holder=THERE)


def test_a_campaign_is_run_by_one_process(store: Store) -> None:
    campaign = running(store)
    take(store, campaign)
    for testbed in ("hall 7", "hall 8"):
        with pytest.raises(ConflictError, match="is being run by another process: process 4711"):
            take(store, campaign, testbed, THERE)


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "dead"])
@pytest.mark.parametrize("same", [True, False], ids=["its campaign", "another campaign"])
def test_what_a_dead_process_held_is_taken_over(store: Store, same: bool, silent: bool) -> None:
    dead = running(store)
    next_one = dead if same else running(store)
    old = take(store, dead, limit_s=1e-6 if silent else LIMIT_S)
    store.begin_block(dead, block_on(old), records.event(), old)
    while silent and store.leases()[0].beat_age_s <= old.limit_s:
        pass  # the clock may be coarse
    new = take(store, next_one, holder=THERE, is_gone=not silent)
    (cut_off,) = store.blocks(dead)
    assert (cut_off.state, cut_off.testbed) == (BlockState.VOID, "hall 7")
    event = store.events(dead)[-1]
    assert (event.kind, event.data["block"]) == ("block-void", 1)
    assert [each.token for each in store.leases()] == [new.token]
    # If the process is alive after all, it can send no heartbeat and begin no block any more.
    assert not store.beat(old)
    assert store.beat(new)
    with pytest.raises(ConflictError, match="taken over"):
        store.begin_block(dead, block_on(old, 2), records.event(), old)
    store.give_back(old)
    assert [each.token for each in store.leases()] == [new.token]
    assert problems(store) == []


def test_a_heartbeat_in_the_future_does_not_keep_a_dead_process_alive(
    store: Store, place: Place
) -> None:
    """Its clock was ahead, and the machine has been rebooted since."""
    dead, next_one = running(store), running(store)
    take(store, dead, limit_s=60.0)
    with place.raw() as connection:
        ahead = store.leases()[0].taken + timedelta(hours=5)
        connection.execute(tables.lease.update().values(beat=ahead))
        connection.commit()
    take(store, next_one, holder=THERE)


def test_one_block_runs_on_a_testbed(store: Store) -> None:
    """No matter who writes, and with which lease."""
    one, other = running(store), running(store)
    lease = take(store, one)
    store.begin_block(one, block_on(lease), records.event())
    with pytest.raises(ConflictError):
        store.begin_block(other, block_on(lease), records.event())
    store.begin_block(other, records.block(1), records.event())


def test_requests_are_for_campaigns_that_run(store: Store) -> None:
    campaign = records.new_campaign(store)
    wish = Request(Wish.PAUSE, "there", records.NOON)
    with pytest.raises(ConflictError, match="is created; it is not running"):
        store.ask(campaign, wish, records.event())
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    assert store.request(campaign) is None
    store.ask(campaign, wish, records.event("asked"))
    assert store.request(campaign) == wish
    assert store.events(campaign)[-1].kind == "asked"
    with pytest.raises(ConflictError, match="was already asked to pause"):
        store.ask(campaign, wish, records.event())
    cancel = replace(wish, wish=Wish.CANCEL)
    store.ask(campaign, cancel, records.event())
    with pytest.raises(ConflictError, match="was already asked to cancel"):
        store.ask(campaign, wish, records.event())
    assert store.request(campaign) == cancel
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    assert store.request(campaign) == cancel
    store.drop_request(campaign)
    assert store.request(campaign) is None
    store.ask(campaign, cancel, records.event())
    store.move_campaign(campaign, CampaignState.PAUSED, "", records.event())
    assert store.request(campaign) is None


def test_trials_end_with_a_cancelled_campaign(store: Store) -> None:
    campaign = records.new_campaign(store, trials=3)
    store.add_trials(campaign, [(records.trial(3, TrialState.QUEUED), records.event())])
    store.move_trial(campaign, 1, TrialState.PRUNED, "slow", records.event())
    store.move_campaign(campaign, CampaignState.CANCELLED, "", records.event())
    cancelled = TrialState.CANCELLED
    states = [trial.state for trial in store.trials(campaign)]
    assert states == [cancelled, TrialState.PRUNED, cancelled, cancelled]


def test_trials_end_with_a_finished_campaign(store: Store) -> None:
    campaign = records.new_campaign(store, trials=3)
    store.move_trial(campaign, 1, TrialState.PRUNED, "slow", records.event())
    for state in (CampaignState.RUNNING, CampaignState.FINISHED):
        store.move_campaign(campaign, state, "", records.event())
    complete = TrialState.COMPLETE
    states = [(trial.state, trial.reason) for trial in store.trials(campaign)]
    expected = (complete, "the campaign ended")
    assert states == [expected, (TrialState.PRUNED, "slow"), expected]


def test_what_a_campaign_is_measured_with(store: Store) -> None:
    campaign = records.new_campaign(store)
    assert store.measured_with(campaign) == {}
    document = {"parameters": {"threads": [1, 2.5, None, "äöü"]}}
    store.set_measured_with(campaign, {"space": Aspect("a", document), "x": Aspect("b", [])})
    store.set_measured_with(campaign, {"x": Aspect("c", {})})
    expected = {"space": Aspect("a", document), "x": Aspect("c", {})}
    assert store.measured_with(campaign) == expected
    assert store.measured_with(records.new_campaign(store)) == {}


def test_priors_come_with_a_campaign(store: Store) -> None:
    priors = [
        Prior(records.CANDIDATE, -0.1 - 0.2, "earlier:4"),
        Prior(records.BASELINE_CONFIGURATION, 0.5, "earlier:2"),
    ]
    campaign = store.create_campaign("c", "{}", 1, records.NOON, priors=priors).id
    assert store.priors(campaign) == priors
    assert store.priors(records.new_campaign(store)) == []


def test_testbeds_are_taken_together_or_not_at_all(store: Store) -> None:
    one, other = running(store), running(store)
    event = records.event("block-void")
    taken = store.take_testbeds(one, ["b", "a"], HERE, LIMIT_S, lambda _: False, event)
    assert [lease.testbed for lease in taken] == ["a", "b"]
    for names in (["c", "b"], ["a"]):
        with pytest.raises(ConflictError, match=f"is in use by campaign {one}"):
            store.take_testbeds(other, names, THERE, LIMIT_S, lambda _: False, event)
    with pytest.raises(ConflictError, match="is being run by another process"):
        store.take_testbeds(one, ["c"], THERE, LIMIT_S, lambda _: False, event)
    assert [lease.testbed for lease in store.leases()] == ["a", "b"]
    assert all(store.beat(lease) for lease in taken)
    # A process that is gone loses only the testbeds that others take.
    store.take_testbeds(other, ["b", "c"], THERE, LIMIT_S, lambda holder: holder == HERE, event)
    assert [(lease.testbed, lease.campaign) for lease in store.leases()] == [
        ("a", one),
        ("b", other),
        ("c", other),
    ]


def test_blocks_that_are_measured_at_once_begin_together(store: Store) -> None:
    campaign = running(store)
    event = records.event("block-void")
    leases = store.take_testbeds(campaign, ["a", "b"], HERE, LIMIT_S, lambda _: False, event)
    blocks = [
        replace(block_on(lease, number), batch=1, slot=number - 1)
        for number, lease in enumerate(leases, start=1)
    ]
    twice = [(replace(block, slot=0), records.event()) for block in blocks]
    with pytest.raises(ConflictError):  # two in one slot
        store.begin_blocks(campaign, twice, leases)
    assert store.blocks(campaign) == []
    store.begin_blocks(campaign, [(block, records.event()) for block in blocks], leases)
    assert store.blocks(campaign) == blocks
    assert store.void_running_blocks(campaign, "killed", event) == (1, 2)
    numbers = [e.data["block"] for e in store.events(campaign) if e.kind == "block-void"]
    assert numbers == [1, 2]
    store.give_back(leases[1])
    later = [(replace(b, number=b.number + 2), records.event()) for b in blocks]
    with pytest.raises(ConflictError, match="testbed b was taken over"):
        store.begin_blocks(campaign, later, leases)
    assert len(store.blocks(campaign)) == 2


def test_time_use_is_stored_with_a_block(store: Store) -> None:
    campaign = running(store)
    use = TimeUse(10.0, 1.0, 2.0, 4.0)
    for number in (1, 2):
        store.begin_block(campaign, records.block(number), records.event())
        store.end_block(campaign, number, BlockState.VOID, "", 1.0, records.event(), use)
    assert store.campaign(campaign).time_use == use + use


def test_the_clock_is_that_of_the_database(store: Store, place: Place) -> None:
    """Two connections agree on the age of a heartbeat, no matter what their own clocks say."""
    campaign = running(store)
    lease = take(store, campaign)
    with place.open() as other:
        first, second = other.leases()[0].beat_age_s, store.leases()[0].beat_age_s
        assert 0.0 <= first <= second
        assert other.beat(lease)
        assert store.leases()[0].taken == lease.taken


def test_the_campaigns_that_a_process_waits_to_continue(store: Store) -> None:
    night, day = (store.create_campaign(name, "{}", 0, records.NOON).id for name in "ab")
    for campaign in (night, day):
        store.move_campaign(campaign, CampaignState.RUNNING, "", records.event("campaign-started"))
        store.move_campaign(campaign, CampaignState.PAUSED, "", records.event("campaign-paused"))
    assert store.waits() == []
    event = store.add_event(night, records.event("campaign-waits"))
    store.add_event(night, records.event("applied"))
    assert store.waits() == [(store.campaign(night), event)]
    store.add_event(night, records.event("campaign-queued"))
    assert store.waits() == []
