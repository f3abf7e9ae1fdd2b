"""Live events of campaigns, and whether their processes respond.

All watchers of a campaign share its database queries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic

from anyio.to_thread import run_sync

from api.problems import RequestError
from tuner.errors import NotFoundError, StoreError, TunerError
from tuner.model import Event
from tuner.records.status import Absence
from tuner.run.presence import absence
from tuner.states import OVER, CampaignState
from tuner.store import Store
from tuner.store.pages import Pages

_PAUSE_S = 0.5
#: Seconds between checks for absence; heartbeats are less frequent than this.
_PRESENCE_S = 5.0
#: Seconds between checks of a watcher's permission.
_MAY_S = 2.0
_READ_AT_ONCE = 500
_REMEMBERED = 2000


@dataclass(frozen=True, slots=True)
class Presence:
    """Liveness of a running campaign's process. ``absence``: why it is not alive, else None."""

    absence: Absence | None


class _Feed:
    """The newest events of one campaign, shared by its watchers."""

    def __init__(self) -> None:
        self.watchers = 0
        self.recent: deque[Event] = deque(maxlen=_REMEMBERED)
        self.newest = 0
        self.over = False
        self.absence: Absence | None = None
        self.checked_s = -_PRESENCE_S
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Feeds:
    """All watched campaigns. Not thread-safe: use from one event loop only."""

    def __init__(self, store: Store, most: int) -> None:
        self._store = store
        self._pages = Pages(store)
        self._most = most
        self._watchers = 0
        self._feeds: dict[str, _Feed] = {}
        self._over = False

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return self._watchers

    def refuse_too_many(self) -> None:
        """Raise RequestError if the maximum number of watchers is reached."""
        if self._watchers >= self._most:
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too-many",
                "too many streams of events; try again later",
                {"Retry-After": "10"},
            )

    def end(self) -> None:
        """End all streams, because the service stops; clients connect again later."""
        self._over = True
        for feed in self._feeds.values():
            feed.changed.set()

    async def watch(
        self, campaign: str, after: int, may: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[Event | Presence | None]:
        """Yield each event with a number above ``after``, in order, and a Presence whenever the
        process of the campaign disappears or is alive again; None when the campaign is over.

        Ends when the campaign can have no more events, when ``may`` returns False, or after
        ``end``.
        """
        last_absence: Absence | None = None
        async with self._join(campaign) as feed:
            while not self._over and await self._may_watch(may) and not self._over:
                checked_s = monotonic()
                changed, newest, over = feed.changed, feed.newest, feed.over
                while after < newest:
                    try:
                        events = await self._between(feed, campaign, after)
                    except NotFoundError:  # it was deleted
                        yield None
                        return
                    except StoreError:
                        break  # the database is temporarily unavailable: continue later
                    for event in events:
                        if self._over:
                            return
                        if monotonic() - checked_s > _MAY_S:  # a client that reads slowly
                            if not await self._may_watch(may):
                                return
                            checked_s = monotonic()
                        after = event.number
                        yield event
                if feed.absence != last_absence:
                    last_absence = feed.absence
                    yield Presence(last_absence)
                if over and after >= newest:
                    yield None
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _MAY_S)

    async def _may_watch(self, may: Callable[[], bool]) -> bool:
        try:
            return await run_sync(may)
        except TunerError:
            return True  # the database is temporarily unavailable, so no new events are sent anyway

    async def _between(self, feed: _Feed, campaign: str, after: int) -> list[Event]:
        """The next events after a number: from memory, or read for a watcher that is behind."""
        if feed.recent and feed.recent[0].number <= after + 1:
            return [event for event in feed.recent if event.number > after]
        return await run_sync(self._store.events, campaign, after, _READ_AT_ONCE)

    @asynccontextmanager
    async def _join(self, campaign: str) -> AsyncIterator[_Feed]:
        self._watchers += 1
        feed = self._feeds.get(campaign)
        if feed is None:
            feed = self._feeds[campaign] = _Feed()
            feed.task = asyncio.create_task(self._follow(campaign, feed))
        feed.watchers += 1
        try:
            yield feed
        finally:
            self._watchers -= 1
            feed.watchers -= 1
            if not feed.watchers:
                del self._feeds[campaign]
                if feed.task is not None:
                    feed.task.cancel()

    async def _follow(self, campaign: str, feed: _Feed) -> None:
        while True:
            absent = feed.absence
            try:
                after = feed.newest
                if not after:  # older events are read only for watchers who need them
                    newest = await run_sync(self._pages.newest_event, campaign)
                    after = max(0, newest - _REMEMBERED)
                state = (await run_sync(self._store.campaign, campaign)).state
                new = await run_sync(self._store.events, campaign, after, _READ_AT_ONCE)
                over, more = state in OVER, len(new) == _READ_AT_ONCE
                if state is not CampaignState.RUNNING:
                    absent = None
                elif not more and (absent or monotonic() - feed.checked_s >= _PRESENCE_S):
                    feed.checked_s = monotonic()
                    absent = await run_sync(absence, self._store, campaign)
            except NotFoundError:  # it was deleted
                new, over, more = [], True, False
            except TunerError:
                # The database is temporarily unavailable: keep the watchers and continue later.
                new, over, more = [], False, False
            if new or (over and not feed.over) or absent != feed.absence:
                feed.recent.extend(new)
                feed.newest = new[-1].number if new else feed.newest
                feed.over = over and not more
                feed.absence = absent
                feed.changed.set()
                feed.changed = asyncio.Event()
            if not more:
                await asyncio.sleep(_PAUSE_S)
