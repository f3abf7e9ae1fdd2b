"""Waiting, between two runs of a campaign, until its testbeds may be used again.

Nothing is held meanwhile: anybody may resume, queue, cancel or delete the campaign, or request that
it stays paused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from tuner.errors import NotFoundError, StoreError
from tuner.holders import this_process
from tuner.interruption import check
from tuner.model import Campaign
from tuner.records.standing import Observer
from tuner.states import ENDS_WAITING, CampaignState, EventKind
from tuner.stop_signals import stop_signals
from tuner.store import NewEvent, Store

#: How often the campaign is read meanwhile, and how often the testbeds once the time has come.
_LOOK_S = 5.0
_AGAIN = timedelta(minutes=1)


def wait(
    store: Store,
    campaign: str,
    until: datetime,
    observer: Observer,
    *,
    is_free: Callable[[], bool] = lambda: True,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until a paused campaign may continue; return whether this process is to continue it.

    ``until`` has a zone. ``is_free``: whether nobody else uses the testbeds; somebody who waits for
    the same hours may have been quicker. At least one look is waited for, so that a wrong ``until``
    costs no more than that. Stop signals end the waiting.
    """
    message = f"this process continues the campaign at {until.astimezone():%H:%M}"
    data = {"until": until.isoformat(), **asdict(this_process())}
    own = store.add_event(campaign, NewEvent(now(), EventKind.WAITS, message, data))
    observer.say(own)
    observer.doing(f"waiting until {until.astimezone():%H:%M}; Ctrl-C leaves the campaign paused")
    is_told = False
    try:
        with stop_signals():
            while True:
                sleep(_LOOK_S)
                check()
                # While the database is away, nobody can tell: look again later.
                with suppress(StoreError):
                    if _is_superseded(store, campaign, own.number):
                        return False
                    if now() < until:
                        continue
                    if is_free():
                        return True
                    until = now() + _AGAIN
                    if not is_told:
                        observer.say(store.add_event(campaign, _in_use(now())))
                        observer.doing(
                            "waiting until the testbed is free; Ctrl-C leaves the campaign paused"
                        )
                        is_told = True
    except KeyboardInterrupt as stop:
        end = NewEvent(
            now(), EventKind.PAUSE_REQUESTED, f"no longer waits: {str(stop) or 'Ctrl-C'}"
        )
        observer.say(store.add_event(campaign, end))
        return False


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


def _in_use(now: datetime) -> NewEvent:
    message = "its testbed is in use by others; the campaign continues once it is free"
    return NewEvent(now, "testbed-in-use", message)
