"""Records that are read from the store equal those that were stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.store import records
from tuner.model import BASELINE, BlockKind, Configuration, Value
from tuner.plan.scores import block_times
from tuner.states import BlockState, CampaignState
from tuner.store import Store
from tuner.time_use import TimeUse

finite = st.floats(allow_nan=False, allow_infinity=False)
times_s = st.floats(min_value=0, max_value=1e8)
parameter_values = st.one_of(st.integers(), st.booleans(), st.text())


def typed(values: dict[str, Value]) -> dict[str, tuple[type, Value]]:
    return {name: (type(value), value) for name, value in values.items()}


def test_campaign(store: Store) -> None:
    created = store.create_campaign("größer", '{"b": 1, "a": [ ]}', 2**64 - 1, records.NOON)
    assert created.state is CampaignState.CREATED
    assert store.campaign(created.id) == created
    assert store.campaigns() == [created]
    assert [(e.number, e.kind, e.at) for e in store.events(created.id)] == [
        (1, "campaign-created", records.NOON)
    ]


def test_identifier_that_another_campaign_of_the_second_has(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.create_campaign("a", "{}", 0, records.NOON)
    letters = iter(first.id[-4:] + "bcdf")
    monkeypatch.setattr("secrets.choice", lambda _letters: next(letters))
    second = store.create_campaign("b", "{}", 0, records.NOON)
    assert second.id == first.id[:-4] + "bcdf"
    assert {each.name for each in store.campaigns()} == {"a", "b"}


def test_trials(store: Store) -> None:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    trials = [records.trial(number) for number in (0, 1, 2)]
    for trial in reversed(trials):
        store.add_trials(campaign, [(trial, records.event())])
    assert store.trials(campaign) == trials


def test_blocks_with_their_measurements(store: Store) -> None:
    campaign = records.new_campaign(store)
    other = records.new_campaign(store)
    for each in (campaign, other):
        store.begin_block(each, records.block(1, 1, 0), records.event())
    done = (records.measurement(1, 0), records.measurement(0, 1))
    for measurement in reversed(done):
        store.add_measurement(campaign, 1, measurement, records.event())
    store.end_block(campaign, 1, BlockState.COMPLETE, "all arms", 12.25, records.event())
    certifying = replace(records.block(2, 0, 1), kind=BlockKind.CERTIFY)
    store.begin_block(campaign, certifying, records.event())

    first = records.block(1, 1, 0)
    assert store.blocks(campaign) == [
        replace(
            first,
            state=BlockState.COMPLETE,
            reason="all arms",
            duration_s=12.25,
            measurements=done,
        ),
        certifying,
    ]
    assert store.blocks(other) == [first]


def test_references_of_a_block(store: Store) -> None:
    campaign = records.new_campaign(store)
    store.begin_block(campaign, records.block(1), records.event())
    again = replace(records.reference(), name="nfs", position=0, page_cache=None, components={})
    for run in (records.reference(), again):
        store.add_reference(campaign, 1, run, records.event())
    assert [block.references for block in store.blocks(campaign)] == [(again, records.reference())]


def test_results_of_each_client(store: Store) -> None:
    campaign = records.new_campaign(store)
    store.begin_block(campaign, records.block(1), records.event())
    together = records.measurement(0)
    apart = replace(together, clients={"one": together.components, "two": together.components})
    store.add_measurement(campaign, 1, apart, records.event())
    (block,) = store.blocks(campaign)
    assert block.measurements == (apart,)


def test_times_come_back_in_utc(store: Store) -> None:
    campaign = records.new_campaign(store)
    store.begin_block(campaign, records.block(1), records.event())
    store.add_measurement(campaign, 1, records.measurement(0), records.event())
    (block,) = store.blocks(campaign)
    assert block.measurements[0].started.utcoffset() == timedelta(0)
    assert store.campaign(campaign).created.utcoffset() == timedelta(0)
    assert {e.at.utcoffset() for e in store.events(campaign)} == {timedelta(0)}


def test_events(store: Store) -> None:
    campaign = records.new_campaign(store, trials=0)
    new = records.event("thing")
    event = store.add_event(campaign, new)
    assert (event.at, event.kind, event.message, event.data) == (
        new.at,
        new.kind,
        new.message,
        new.data,
    )
    assert store.events(campaign)[-1] == event


def test_recommendation(store: Store) -> None:
    campaign, other = records.new_campaign(store), records.new_campaign(store)
    store.save_recommendation(campaign, records.recommendation(), records.event())
    unsure = replace(
        records.recommendation(), components={}, ratio=None, lower=None, upper=None, e_value=None
    )
    store.save_recommendation(other, unsure, records.event())
    assert store.campaign(campaign).recommendation == records.recommendation()
    assert {c.id: c.recommendation for c in store.campaigns()} == {
        campaign: records.recommendation(),
        other: unsure,
    }


def test_baseline(store: Store) -> None:
    campaign = records.new_campaign(store)
    assert store.campaign(campaign).baseline is None
    store.set_baseline(campaign, Configuration(), records.event())
    assert store.campaign(campaign).baseline == Configuration()


def test_time_use_adds_up(store: Store) -> None:
    campaign = records.new_campaign(store)
    store.add_time_use(campaign, TimeUse(10.0, 1.0, 2.0, 4.0))
    store.add_time_use(campaign, TimeUse(1.0, 0.25, 0.5, 0.125))
    assert store.campaign(campaign).time_use == TimeUse(11.0, 1.25, 2.5, 4.125)


def test_any_mapping_is_accepted(store: Store) -> None:
    campaign = records.new_campaign(store)
    frozen = replace(records.event(), data=MappingProxyType({"a": 1}))
    store.add_event(campaign, frozen)
    assert store.events(campaign)[-1].data == {"a": 1}


@pytest.mark.slow
@given(values=st.dictionaries(st.text(), parameter_values))
def test_values_keep_their_types(shared: Store, values: dict[str, Value]) -> None:
    campaign = records.new_campaign(shared, trials=0)
    trial = replace(records.trial(1), configuration=Configuration.of(values))
    shared.add_trials(campaign, [(trial, records.event())])
    (copy,) = shared.trials(campaign)
    assert typed(copy.configuration.as_dict()) == typed(values)


@pytest.mark.slow
@given(
    started=st.datetimes(timezones=st.timezones() | st.just(UTC), allow_imaginary=False).filter(
        lambda moment: 1 < moment.year < 9999
    ),
    apply_s=times_s,
    seed=st.integers(0, 2**64 - 1),
    diagnostics=st.dictionaries(st.text(), finite),
)
def test_measurements_are_exact(
    shared: Store,
    started: datetime,
    apply_s: float,
    seed: int,
    diagnostics: dict[str, float],
) -> None:
    measurement = replace(
        records.measurement(0),
        started=started,
        apply_s=apply_s,
        seed=seed,
        diagnostics=diagnostics,
    )
    campaign = records.new_campaign(shared, trials=1)
    shared.begin_block(campaign, records.block(1), records.event())
    shared.add_measurement(campaign, 1, measurement, records.event())
    shared.end_block(campaign, 1, BlockState.COMPLETE, "", apply_s, records.event())
    (block,) = shared.blocks(campaign)
    # In UTC, because an hour that its zone has twice equals no time of another zone.
    assert block.measurements == (replace(measurement, started=started.astimezone(UTC)),)
    assert block.duration_s == apply_s


def test_block_times_match_the_stored_blocks(store: Store) -> None:
    campaign = records.new_campaign(store)
    store.begin_block(campaign, records.block(1), records.event())
    disturbed = replace(records.measurement(1), diagnostics=records.DISTURBED)
    for measurement in (disturbed, records.measurement(BASELINE, 1)):
        store.add_measurement(campaign, 1, measurement, records.event())
    names = ("build", "copy")
    (times,) = store.block_times(campaign, names)
    assert times == block_times(store.blocks(campaign)[0], names)
    assert times.covariates == {1: (0.5, None, 0.02, None, 0.0, None)}
