"""Runs of references and results of single clients are stored unchanged, and only once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store import records
from tuner.errors import ConflictError
from tuner.model import ComponentResult, PageCache, ReferenceRun
from tuner.states import BlockState
from tuner.store import Store

RUN = ReferenceRun(
    name="local-disk",
    position=1,
    started=records.NOON,
    workload_s=12.5,
    components={
        "build": ComponentResult(0.5, 3, 0),
        "copy": ComponentResult(1 / 3, 12_000, 2**40, 1e-4, 2e-4, 3e-4, 0.5),
    },
    page_cache=PageCache.DROPPED,
    engine_sha256="cd" * 32,
    seed=2**64 - 1,
)


@pytest.fixture
def campaign(store: Store) -> str:
    """Return a campaign with a running block."""
    identifier = records.new_campaign(store)
    store.begin_block(identifier, records.block(1), records.event())
    return identifier


def test_references_come_back_by_position(store: Store, campaign: str) -> None:
    later = replace(RUN, name="another", position=2, page_cache=None, components={})
    event = store.add_reference(campaign, 1, later, records.event("reference-measured"))
    store.add_reference(campaign, 1, RUN, records.event())
    (block,) = store.blocks(campaign)
    assert block.references == (RUN, later)
    assert block.measurements == ()
    assert event in store.events(campaign)


def test_a_reference_is_measured_once_a_block_while_it_runs(store: Store, campaign: str) -> None:
    store.add_reference(campaign, 1, RUN, records.event())
    with pytest.raises(ConflictError):
        store.add_reference(campaign, 1, RUN, records.event())
    store.end_block(campaign, 1, BlockState.COMPLETE, "", 1.0, records.event())
    with pytest.raises(ConflictError, match="accepts no more measurements"):
        store.add_reference(campaign, 1, replace(RUN, name="late"), records.event())
    assert store.blocks(campaign)[0].references == (RUN,)


def test_results_of_single_clients_are_stored_with_the_combined_ones(
    store: Store, campaign: str
) -> None:
    one = {"copy": ComponentResult(1.0, 1, 2), "build": ComponentResult(2.0, 3, 4)}
    other = {"copy": ComponentResult(3.0, 1, 2, max_s=0.25), "build": ComponentResult(4.0, 3, 4)}
    measured = replace(records.measurement(0), clients={"client1": one, "client2": other})
    store.add_measurement(campaign, 1, measured, records.event())
    store.add_measurement(campaign, 1, records.measurement(1, position=1), records.event())
    (block,) = store.blocks(campaign)
    assert block.measurements[0].clients == {"client1": one, "client2": other}
    assert block.measurements[0].components == measured.components
    assert block.measurements[1].clients == {}
