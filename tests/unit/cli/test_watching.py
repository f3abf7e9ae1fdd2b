"""The view of a campaign that another process runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.campaign.campaigns import Campaign, faster, spec
from tuner.cli.watching import StoreSource, _error
from tuner.errors import ConflictError
from tuner.model import BlockKind, Event
from tuner.states import BlockState, CampaignState, EventKind
from tuner.store import Store


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Return a finished campaign."""
    state = tmp_path_factory.mktemp("watched") / "state"
    with Store.open(state) as store:
        campaign = Campaign(store, spec(faster()), state)
        campaign.run()
    return campaign


def test_a_second_look_reads_only_new_blocks(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, reads = Store.block_times, []
    last: list[int | None] = [2]

    def read(
        store: Store, name: str, components: Any, after: int = 0, *rest: Any, **how: Any
    ) -> Any:
        blocks = every(store, name, components, after, *rest, **how)
        visible = [block for block in blocks if last[0] is None or block.number <= last[0]]
        reads.append([block.number for block in visible])
        return visible

    monkeypatch.setattr(Store, "block_times", read)
    with Store.open(Path(campaign.directory)) as store:
        numbers = [block.number for block in store.blocks(campaign.id)]
        source = StoreSource(store, campaign.id)
        source.estimates(BlockKind.SEARCH)
        last[0] = None
        second = source.estimates(BlockKind.SEARCH)
        assert reads == [[1, 2], numbers[2:]]
        assert second == StoreSource(store, campaign.id).estimates(BlockKind.SEARCH)
        assert second


def test_how_far_it_is(campaign: Campaign) -> None:
    with Store.open(Path(campaign.directory)) as store:
        blocks, progress = store.blocks(campaign.id), StoreSource(store, campaign.id).blocks()
    assert progress is not None
    assert (progress.last.number, progress.last.order) == (blocks[-1].number, blocks[-1].order)
    assert progress.measurements == sum(len(block.measurements) for block in blocks)
    assert progress.complete == sum(
        b.kind is blocks[-1].kind and b.state is BlockState.COMPLETE for b in blocks
    )


def test_before_the_first_block(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        campaign = Campaign(store, spec(), tmp_path)
        assert StoreSource(store, campaign.id).blocks() is None


def test_a_paused_campaign_whose_resume_was_refused_ends_with_the_refusal(
    campaign: Campaign,
) -> None:
    with Store.open(campaign.directory) as store:
        record = store.campaign(campaign.id)
    paused = replace(record, state=CampaignState.PAUSED, reason="changed since it was measured")
    kind = EventKind.PAUSED
    refusal = _error(paused, Event(1, record.created, kind, "", {"failure": "conflict"}))
    assert isinstance(refusal, ConflictError)
    assert str(refusal) == paused.reason
    assert _error(paused, Event(1, record.created, kind, "")) is None
