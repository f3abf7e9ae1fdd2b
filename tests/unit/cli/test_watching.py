"""The view of a campaign that another process runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.unit.campaign.campaigns import Campaign, faster, spec
from tuner.cli import watching
from tuner.cli.watching import StoreSource, _error, watched
from tuner.errors import ConflictError
from tuner.model import BlockKind, Event
from tuner.records.standing import Standing
from tuner.report.progress import NoProgress
from tuner.results.external_standing import incumbent_after
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


class _Recording(NoProgress):
    """Records the events that a live view was given, and with which of them it had a standing."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.standings: list[tuple[int, Standing]] = []

    def say(self, event: Event) -> None:
        self.events.append(event)

    def standing(self, standing: Standing) -> None:
        self.standings.append((len(self.events), standing))


def test_a_live_view_begins_with_the_present_standing_and_needs_few_of_the_earlier_events(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = _Recording()
    monkeypatch.setattr(watching, "_AT_A_TIME", 10)
    monkeypatch.setattr(watching, "output", lambda: Console(force_terminal=True, width=100))
    monkeypatch.setattr(watching, "progress_for", lambda *_, **__: shows)
    before = datetime.now(UTC)
    with Store.open(campaign.directory) as store:
        every = store.events(campaign.id)
        watched(StoreSource(store, campaign.id), 0, None)
        lines = list(StoreSource(store, campaign.id).follow(0, print, print))
    count, first = shows.standings[0]
    assert count == len(shows.events) < len(every)
    assert shows.events[-10:] == every[-10:]
    assert incumbent_after(shows.events) == incumbent_after(every)
    (began,) = (event.at for event in every if event.kind == EventKind.STARTED)
    assert first.elapsed_s >= (before - began).total_seconds()
    # Whoever follows it from its beginning gets all events, in order.
    assert lines == every


@pytest.mark.parametrize("hours", [{}, {"until": "2026-01-01T22:00:00Z"}])
def test_a_live_view_of_a_paused_campaign_ends_unless_it_waits_for_its_hours(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, hours: dict[str, str]
) -> None:
    with Store.open(campaign.directory) as store:
        source = StoreSource(store, campaign.id)
        record = store.campaign(campaign.id)
        paused = replace(record, state=CampaignState.PAUSED)
        monkeypatch.setattr(source, "campaign", lambda: paused)
        earlier = [
            Event(1, record.created, EventKind.PAUSED, ""),
            Event(2, record.created, EventKind.STARTED, ""),
            Event(3, record.created, EventKind.PAUSED, "", hours),
        ]
        assert watching._has_stopped(source, earlier) is not bool(hours)
        resumed = Event(4, record.created, EventKind.RESUME_REQUESTED, "")
        assert not watching._has_stopped(source, [*earlier, resumed])
