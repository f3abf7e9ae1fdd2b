"""Event streams: every watcher gets every event in order, whenever it connects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api import watching
from api.problems import RequestError
from api.watching import Feeds, Presence
from tests.unit.store.test_leases import LIMIT_S
from tuner.errors import StoreError
from tuner.holders import this_process
from tuner.model import Event
from tuner.states import CampaignState
from tuner.store import NewEvent, Store
from tuner.store.deletion import delete_campaign

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        yield store


def happen(store: Store, campaign: str, count: int) -> None:
    for number in range(count):
        store.add_event(campaign, NewEvent(NOW, "news", f"news {number}"))


async def all_of(feeds: Feeds, campaign: str, after: int, late_s: float) -> list[int]:
    await asyncio.sleep(late_s)
    numbers: list[int] = []
    async for event in feeds.watch(campaign, after):
        if event is None:
            return numbers
        assert isinstance(event, Event)
        numbers.append(event.number)
    raise AssertionError("the stream ended without saying so")


@pytest.mark.slow
def test_every_watcher_gets_every_event_in_order(store: Store) -> None:
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    happen(store, campaign, 700)

    def live() -> None:
        happen(store, campaign, 300)
        over = NewEvent(NOW, "campaign-cancelled", "cancelled")
        store.move_campaign(campaign, CampaignState.CANCELLED, "", over)

    async def watch() -> list[list[int]]:
        feeds = Feeds(store, most=1000)
        writer = threading.Thread(target=live)
        writer.start()
        results = await asyncio.gather(
            *(all_of(feeds, campaign, 10 * n, 0.01 * n) for n in range(100))
        )
        await asyncio.to_thread(writer.join)
        assert feeds.watchers == 0
        return list(results)

    results = asyncio.run(watch())
    last = len(store.events(campaign))
    assert last == 1002
    for n, numbers in enumerate(results):
        assert numbers == list(range(10 * n + 1, last + 1))


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 40, 300], ids=["few", "as many as remembered", "many"])
def test_the_first_watcher_of_a_long_campaign_reads_only_the_newest_events(
    store: Store, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(watching, "_REMEMBERED", 40)
    monkeypatch.setattr(watching, "_READ_AT_ONCE", 30)
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    happen(store, campaign, count - 1)
    events, rows = store.events, 0

    def counted(of: str, after: int, most: int) -> list[Event]:
        nonlocal rows
        result = events(of, after, most)
        rows += len(result)
        return result

    monkeypatch.setattr(store, "events", counted)

    async def watch() -> None:
        feeds = Feeds(store, most=10)
        live = asyncio.create_task(all_of(feeds, campaign, count, 0.0))
        while rows < min(count, 40):
            await asyncio.sleep(0.01)
        assert rows == min(count, 40)
        # These come later, and are behind.
        behind = [0, max(0, count - 41), max(0, count - 40), count - 1]
        late = [asyncio.create_task(all_of(feeds, campaign, after, 0.0)) for after in behind]
        while feeds.watchers < 5:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(happen, store, campaign, 3)
        assert (await asyncio.to_thread(events, campaign))[-1].number == count + 3
        over = NewEvent(NOW, "campaign-cancelled", "cancelled")
        await asyncio.to_thread(store.move_campaign, campaign, CampaignState.CANCELLED, "", over)
        for after, numbers in zip([count, *behind], await asyncio.gather(live, *late), strict=True):
            assert numbers == list(range(after + 1, count + 5))

    asyncio.run(asyncio.wait_for(watch(), 60))


@pytest.mark.slow
def test_watchers_share_the_database_queries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    looks = 0
    events = store.events

    def counted(*arguments: object) -> object:
        nonlocal looks
        looks += 1
        return events(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "events", counted)

    async def watch() -> None:
        feeds = Feeds(store, most=1000)
        watchers = [asyncio.create_task(all_of(feeds, campaign, 0, 0.0)) for _ in range(200)]
        while not looks:
            await asyncio.sleep(0.01)
        over = NewEvent(NOW, "campaign-cancelled", "cancelled")
        store.move_campaign(campaign, CampaignState.CANCELLED, "", over)
        assert await asyncio.gather(*watchers) == [[1, 2]] * 200

    asyncio.run(watch())
    # Two queries per second, however long this takes; separate queries would be far more.
    assert looks < 200


@pytest.mark.slow
def test_watchers_are_notified_when_no_process_is_alive(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_PRESENCE_S", 0.0)
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    event = NewEvent(NOW, "campaign-started", "campaign started")
    store.move_campaign(campaign, CampaignState.RUNNING, "", event)

    async def watch() -> None:
        stream = Feeds(store, most=1).watch(campaign, 2)
        missed = await anext(stream)
        assert isinstance(missed, Presence)
        assert missed.absence is not None
        assert missed.absence.reason.startswith("no process runs it any more")
        # A process resumes it. Later it is paused, when no process is expected.
        await asyncio.to_thread(
            store.take_testbeds, campaign, ["x"], this_process(), LIMIT_S, lambda _: True, event
        )
        assert await anext(stream) == Presence(None)
        await asyncio.to_thread(store.give_back, store.leases()[0])
        assert await anext(stream) == missed
        store.move_campaign(campaign, CampaignState.PAUSED, "", event)
        paused = await anext(stream)
        assert isinstance(paused, Event)
        assert await anext(stream) == Presence(None)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(watch())


@pytest.mark.parametrize("remembered", [10, 2000], ids=["read", "from memory"])
def test_a_stream_that_is_behind_ends_with_its_permission(
    store: Store, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    """It has all its events, but its client reads them slowly."""
    monkeypatch.setattr(watching, "_REMEMBERED", remembered)
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    happen(store, campaign, 600)
    now_s = [0.0]
    monkeypatch.setattr(watching, "monotonic", lambda: now_s[0])

    async def watch() -> list[int]:
        numbers: list[int] = []
        async for event in Feeds(store, most=1).watch(campaign, 0, lambda: len(numbers) < 100):
            assert isinstance(event, Event)
            numbers.append(event.number)
            now_s[0] += watching._MAY_S / 8
        return numbers

    numbers = asyncio.run(asyncio.wait_for(watch(), 30))
    assert numbers == list(range(1, len(numbers) + 1))
    assert 100 <= len(numbers) < 110


def test_one_watcher_too_many_is_rejected(store: Store) -> None:
    campaign = store.create_campaign("watched", "{}", 1, NOW).id

    async def watch() -> None:
        feeds = Feeds(store, most=1)
        feeds.refuse_too_many()
        stream = feeds.watch(campaign, 0)
        event = await anext(stream)
        assert event is not None
        with pytest.raises(RequestError) as refused:
            feeds.refuse_too_many()
        assert refused.value.status == 503
        await stream.aclose()  # type: ignore[attr-defined]
        feeds.refuse_too_many()

    asyncio.run(watch())


def test_a_watcher_that_is_behind_outlasts_an_outage_of_the_database(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_MAY_S", 0.01)
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    happen(store, campaign, 300)
    over = NewEvent(NOW, "campaign-cancelled", "cancelled")
    store.move_campaign(campaign, CampaignState.CANCELLED, "", over)
    events, outages = store.events, [True, True]

    def failing(of: str, after: int, most: int) -> list[Event]:
        # Only the watcher reads from the beginning once the feed is ahead.
        if after == 0 and reads and outages:
            outages.pop()
            raise StoreError("the database is away")
        reads.append(after)
        return events(of, after, most)

    reads: list[int] = []
    monkeypatch.setattr(store, "events", failing)
    monkeypatch.setattr(watching, "_REMEMBERED", 10)
    numbers = asyncio.run(all_of(Feeds(store, most=1), campaign, 0, 0.0))
    assert (numbers, outages) == (list(range(1, 303)), [])


def test_a_stream_ends_with_its_campaign_deleted(store: Store) -> None:
    campaign = store.create_campaign("watched", "{}", 1, NOW).id

    async def watch() -> None:
        stream = Feeds(store, most=1).watch(campaign, 0)
        assert await anext(stream) is not None
        await asyncio.to_thread(delete_campaign, store, campaign)
        assert await anext(stream) is None

    asyncio.run(asyncio.wait_for(watch(), 30))


def test_streams_end_when_the_service_stops(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_MAY_S", 1000.0)
    campaign = store.create_campaign("watched", "{}", 1, NOW).id

    async def watch() -> list[Event | Presence | None]:
        feeds = Feeds(store, most=1)
        stream = feeds.watch(campaign, 0)
        first = await anext(stream)
        asyncio.get_running_loop().call_later(0.1, feeds.end)
        return [first, *[event async for event in stream]]

    (event,) = asyncio.run(asyncio.wait_for(watch(), 30))
    assert isinstance(event, Event)


def test_a_stream_that_catches_up_ends_at_the_next_event(store: Store) -> None:
    campaign = store.create_campaign("watched", "{}", 1, NOW).id
    for number in range(5):
        store.add_event(campaign, NewEvent(NOW, "news", f"news {number}"))

    async def watch() -> list[Event | Presence | None]:
        feeds = Feeds(store, most=1)
        stream = feeds.watch(campaign, 0)
        first = await anext(stream)
        feeds.end()
        return [first, *[event async for event in stream]]

    assert len(asyncio.run(asyncio.wait_for(watch(), 30))) == 1
