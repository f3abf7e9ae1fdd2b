"""Waiting, between two runs of a campaign, until its testbeds may be used again.

Nothing is held meanwhile: anybody may resume, queue, cancel or delete the campaign, or request that
it stays paused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

from tuner.errors import NotFoundError
from tuner.interruption import check
from tuner.model import Campaign
from tuner.records.standing import Observer
from tuner.run.holding import this_process
from tuner.run.stopping import stop_signals
from tuner.states import ENDS_WAITING, CampaignState, EventKind
from tuner.store import NewEvent, Store

#: How often the campaign is read meanwhile.
_LOOK_S = 5.0


def wait(
    store: Store,
    campaign: str,
    until: datetime,
    observer: Observer,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until a paused campaign may continue; return whether this process is to continue it.

    ``until`` has a zone. Stop signals end the waiting.
    """
    message = f"this process continues the campaign at {until.astimezone():%H:%M}"
    data = {"until": until.isoformat(), **asdict(this_process())}
    own = store.add_event(campaign, NewEvent(now(), EventKind.WAITS, message, data))
    observer.say(own)
    observer.doing(f"waiting until {until.astimezone():%H:%M}; Ctrl-C leaves the campaign paused")
    try:
        with stop_signals():
            while (left_s := (until - now()).total_seconds()) > 0:
                sleep(min(left_s, _LOOK_S))
                check()
                if _is_superseded(store, campaign, own.number):
                    return False
    except KeyboardInterrupt as stop:
        end = NewEvent(
            now(), EventKind.PAUSE_REQUESTED, f"no longer waits: {str(stop) or 'Ctrl-C'}"
        )
        observer.say(store.add_event(campaign, end))
        return False
    return not _is_superseded(store, campaign, own.number)


def is_waited_for(store: Store, campaign: Campaign) -> bool:
    """Whether a campaign is paused and a process has announced that it will continue it."""
    if campaign.state is not CampaignState.PAUSED:
        return False
    events = store.events(campaign.id, kinds=ENDS_WAITING)
    return bool(events) and events[-1].kind == EventKind.WAITS


def _is_superseded(store: Store, campaign: str, own: int) -> bool:
    try:
        if store.campaign(campaign).state is not CampaignState.PAUSED:
            return True
        return bool(store.events(campaign, own, limit=1, kinds=ENDS_WAITING))
    except NotFoundError:
        return True
