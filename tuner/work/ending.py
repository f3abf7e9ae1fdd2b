"""What becomes of a campaign when its run has ended, or before one is begun. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tuner.errors import StoreError
from tuner.model import Campaign, Event
from tuner.states import OVER, CampaignState, EventKind

#: A run that dies so often without one more complete block dies of the campaign.
MOST_DEATHS = 3
#: What a worker tells before it begins a run.
TAKEN = EventKind.WORKER_TOOK
DIED = EventKind.RUN_DIED


class Fate(StrEnum):
    """What becomes of a campaign that a worker had. The first four end its job."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    FAILED = "failed"
    #: It never began to run: why, is what it said last.
    REFUSED = "refused"
    #: Its process died too often: it is given up.
    GIVEN_UP = "given-up"
    #: Its process died: it is resumed.
    DIED = "died"
    #: Back on the queue: the worker ends, or its testbed is in use.
    PUT_BACK = "put-back"


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A run that has ended with ``status`` (negative: of a signal), and what the store says now.

    ``events``: of the campaign, all; ``in_use``: by a living process, the campaign or its testbed;
    ``stopping``: the worker ends, and has asked the run to.
    """

    campaign: Campaign
    events: Sequence[Event]
    status: int
    in_use: bool
    stopping: bool


def settled(campaign: Campaign, events: Sequence[Event], attempts: int) -> Fate | None:
    """What has become of a campaign before a run is begun; None: one is to be begun.

    ``attempts``: how often a run of this job was begun before. Whoever began the last one may have
    died before it could say how that ended.
    """
    if campaign.state in OVER:
        return Fate(campaign.state)
    if attempts and campaign.state is CampaignState.FAILED:
        return Fate.FAILED
    if attempts and campaign.state is CampaignState.PAUSED and _is_requested(events):
        return Fate.PAUSED
    return None


def fate(end: RunEnd) -> Fate:
    """What becomes of a campaign after a run."""
    state = end.campaign.state
    never_ran = bool(end.events) and end.events[-1].kind == TAKEN
    if state in OVER:
        return Fate(state)
    if state is CampaignState.PAUSED and not never_ran:
        return Fate.PUT_BACK if end.stopping and not _is_requested(end.events) else Fate.PAUSED
    if state is CampaignState.FAILED and not never_ran:
        return Fate.FAILED
    if end.stopping or end.in_use or end.status == StoreError.exit_code:
        return Fate.PUT_BACK
    if never_ran and end.status > 0:
        return Fate.REFUSED
    return Fate.GIVEN_UP if deaths(end.events) + 1 >= MOST_DEATHS else Fate.DIED


def deaths(events: Sequence[Event]) -> int:
    """How often the campaign's process has died since its last complete block."""
    count = 0
    for event in reversed(events):
        if event.kind == EventKind.BLOCK_COMPLETE:
            break
        count += event.kind == DIED
    return count


def _is_requested(events: Sequence[Event]) -> bool:
    """Whether somebody asked for the pause that a campaign is in, since its last run was begun."""
    for event in reversed(events):
        if event.kind == EventKind.PAUSE_REQUESTED or "wish" in event.data:
            return True
        if event.kind == TAKEN:
            return False
    return False
