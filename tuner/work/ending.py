"""The outcome of a campaign for its worker, before a run is started or after it has ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tuner.errors import StoreError
from tuner.model import Campaign, Event
from tuner.states import OVER, CampaignState, EventKind
from tuner.store.imported_rows import wrong_data

#: After this many deaths without another complete block, the campaign is taken to be the cause.
MOST_DEATHS = 3
#: The event that a worker stores before it starts a run.
TAKEN = EventKind.WORKER_TOOK
DIED = EventKind.RUN_DIED
_SINCE = (EventKind.STARTED, EventKind.QUEUED)
#: Besides these kinds, only the newest event and the newest complete block affect an outcome.
DECISIVE = (TAKEN, DIED, EventKind.PAUSED, EventKind.PAUSE_REQUESTED, *_SINCE)


class JobEnd(StrEnum):
    """The outcome of a campaign for its worker. All but the last three end the job."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    FAILED = "failed"
    #: It never started to run: its last output says why.
    REFUSED = "refused"
    #: Its process died too often: no further attempt is made.
    GIVEN_UP = "given-up"
    #: Back on the queue until its testbeds may be used again: their hours, or others there.
    WAITING = "waiting"
    #: Its process died: it will be resumed.
    DIED = "died"
    #: Back on the queue: the worker is stopping, or the testbed is in use.
    PUT_BACK = "put-back"


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A run that has ended with ``status`` (negative: killed by that signal), and the state of the
    store.

    ``events``: those of the campaign, at least what ``DECISIVE`` names; ``in_use``: a live process
    uses the campaign or its testbed; ``stopping``: the worker is stopping and has told the run to
    stop.
    """

    campaign: Campaign
    events: Sequence[Event]
    status: int
    in_use: bool
    stopping: bool


def end_without_run(campaign: Campaign, events: Sequence[Event]) -> JobEnd | None:
    """Return the outcome of a campaign if no run is needed for it; None: start one. ``events``: see
    ``RunEnd``.

    A run since the campaign was queued may have ended without a worker to record that: it died.
    What happened before was known to whoever queued it.
    """
    if campaign.state in OVER:
        return JobEnd(campaign.state)
    if not _has_run(events):
        return None
    if campaign.state is CampaignState.FAILED:
        return JobEnd.FAILED
    if campaign.state is CampaignState.PAUSED and _is_requested(events):
        return JobEnd.PAUSED
    return None


def _has_run(events: Sequence[Event]) -> bool:
    """Whether a run has started since the campaign was queued."""
    kinds = (event.kind for event in reversed(events))
    return next((one for one in kinds if one in _SINCE), None) == EventKind.STARTED


def job_end(end: RunEnd) -> JobEnd:
    """Return the outcome of a campaign after a run."""
    state = end.campaign.state
    never_ran = bool(end.events) and end.events[-1].kind == TAKEN
    if state in OVER:
        return JobEnd(state)
    if state is CampaignState.PAUSED and not never_ran:
        if _is_requested(end.events):
            return JobEnd.PAUSED
        if continues_at(end.events) is not None:
            return JobEnd.WAITING
        return JobEnd.PUT_BACK if end.stopping else JobEnd.PAUSED
    if state is CampaignState.FAILED and not never_ran:
        return JobEnd.FAILED
    if end.stopping or end.in_use or end.status == StoreError.exit_code:
        return JobEnd.PUT_BACK
    if never_ran and end.status > 0:
        return JobEnd.REFUSED
    return JobEnd.GIVEN_UP if deaths(end.events) + 1 >= MOST_DEATHS else JobEnd.DIED


def deaths(events: Sequence[Event]) -> int:
    """Return how often the campaign's process has died since its last complete block."""
    count = 0
    for event in reversed(events):
        if event.kind == EventKind.BLOCK_COMPLETE:
            break
        count += event.kind == DIED
    return count


def continues_at(events: Sequence[Event]) -> datetime | None:
    """Return when a campaign may continue that only its testbeds' hours paused; None otherwise, or
    if its event does not tell.
    """
    pauses = (event for event in reversed(events) if event.kind == EventKind.PAUSED)
    pause = next(pauses, None)
    if pause is None or "until" not in pause.data or wrong_data(pause.kind, pause.data, 0):
        return None
    return datetime.fromisoformat(str(pause.data["until"]))


def _is_requested(events: Sequence[Event]) -> bool:
    """Whether somebody requested the campaign's pause since its last run started."""
    for event in reversed(events):
        if event.kind == EventKind.PAUSE_REQUESTED or "wish" in event.data:
            return True
        if event.kind == TAKEN:
            return False
    return False
