"""Pause and cancel a campaign from outside the process that runs it; what cannot be resumed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from tuner.errors import ConflictError, SpecError
from tuner.holders import is_gone
from tuner.model import Campaign, Request, Wish
from tuner.run.waiting import is_waited_for
from tuner.states import OVER, CampaignState, EventKind
from tuner.store import NewEvent, Store
from tuner.store.queue import Queue

_ENDS = {
    Wish.PAUSE: (CampaignState.PAUSED, EventKind.PAUSED),
    Wish.CANCEL: (CampaignState.CANCELLED, "campaign-cancelled"),
}
_REQUESTED = {Wish.PAUSE: EventKind.PAUSE_REQUESTED, Wish.CANCEL: EventKind.CANCEL_REQUESTED}


class StopRequested(Exception):
    """This run has been requested to end; the text names the request and where it came from."""

    def __init__(self, request: Request) -> None:
        super().__init__(f"{request.wish} requested from {request.asked_by}")
        self.state = _ENDS[request.wish][0]


def refuse_last(reference: str, find: Callable[[str], Campaign], command: str = "") -> None:
    """Raise SpecError for 'last', which may be another campaign than the user means, where what is
    done cannot be undone.

    ``find`` returns the campaign of a reference. ``command``: the one to use with its identifier.
    """
    if reference == "last":
        campaign = find(reference)
        advice = "use its identifier"
        if command:
            advice = f"give its identifier: fstune {command} {campaign.id}"
        raise SpecError(
            f"'last' is not accepted for what cannot be undone; it would be {campaign.id} "
            f"({campaign.name}); {advice}"
        )


def steer(store: Store, campaign: Campaign, wish: Wish, asked_by: str, now: datetime) -> str:
    """Pause or cancel a campaign; returns what happens to it, as a sentence.

    A running campaign gets a request, and ends at its next safe point, between two arms or blocks.
    One whose process has died is ended here, unless a worker will resume it; whatever it left on
    its testbed stays there. One that waits for a worker, or that a dead one has taken, is taken off
    the queue. Raises ConflictError if there is nothing to end, when its state changes meanwhile,
    when a worker is starting a campaign that is to be paused, and when a verification whose process
    has died is.
    """
    queue = Queue.find(store)
    if campaign.state is CampaignState.RUNNING:
        if in_use(store, campaign.id) or _has_worker(queue, campaign.id):
            message = f"{wish} requested from {asked_by}"
            event = NewEvent(now, _REQUESTED[wish], message, {"from": asked_by})
            store.ask(campaign.id, Request(wish, asked_by, now), event)
            return f"campaign {campaign.id} will {wish} at the next safe point"
        verifies = is_verification(store, campaign.id)
        if wish is Wish.PAUSE and verifies:
            raise _not_resumed(campaign.id)
        cut_off = "its process died"
        if queue is not None:
            event = _off_queue(asked_by, now)
            off = queue.withdraw(campaign.id, event, dead=_dead(queue))
            if not off and _has_worker(queue, campaign.id):  # since it was asked above
                raise ConflictError(_with_worker(campaign.id))
        store.void_running_blocks(
            campaign.id, cut_off, NewEvent(now, EventKind.BLOCK_VOID, cut_off)
        )
        resume = f"'fstune resume {campaign.id}' does that"
        todo = resume if wish is Wish.PAUSE else _restore(verifies)
        rest = f"it has not restored its testbed; {todo}"
        reason = f"{wish} requested from {asked_by} after its process died; {rest}"
        _end(store, campaign, wish, reason, now, rest)
        what = "verification" if verifies else "campaign"
        return f"{what} {campaign.id} is {_ENDS[wish][0]}; {rest}"
    was_queued = False
    if queue is not None and campaign.state not in OVER:
        was_queued = queue.withdraw(campaign.id, _off_queue(asked_by, now), dead=_dead(queue))
    if wish is Wish.PAUSE and was_queued:
        todo = f"'fstune resume {campaign.id} --queue' puts it back on the queue"
        return f"campaign {campaign.id} is off the queue; {todo}"
    if wish is Wish.PAUSE and is_waited_for(store, campaign):
        message = f"to stay paused, as requested from {asked_by}"
        store.add_event(campaign.id, NewEvent(now, _REQUESTED[wish], message))
        return f"campaign {campaign.id} stays paused"
    if campaign.state not in OVER and wish is Wish.PAUSE and _has_worker(queue, campaign.id):
        raise ConflictError(_with_worker(campaign.id))
    if wish is Wish.PAUSE or campaign.state in OVER:
        raise ConflictError(f"campaign {campaign.id} is {campaign.state}; it is not running")
    _end(store, campaign, wish, f"cancel requested from {asked_by}", now)
    return f"campaign {campaign.id} is cancelled"


def refuse_verification(store: Store, campaign: str) -> None:
    """Raise ConflictError for a verification: if resumed, it would search and certify."""
    if is_verification(store, campaign):
        raise _not_resumed(campaign)


def is_verification(store: Store, campaign: str) -> bool:
    """Whether a campaign is a verification of another one."""
    return bool(store.events(campaign, kinds={EventKind.VERIFICATION}))


def _not_resumed(verification: str) -> ConflictError:
    return ConflictError(
        f"campaign {verification} is a verification, which cannot be resumed: run 'fstune verify' "
        "again"
    )


def in_use(store: Store, campaign: str, testbeds: Collection[str] = ()) -> bool:
    """Whether a process not known to be dead runs the campaign or uses one of these testbeds."""
    leases = store.leases()
    leased = [each for each in leases if each.testbed in testbeds or each.campaign == campaign]
    return any(each.is_live(is_gone) for each in leased)


def _has_worker(queue: Queue | None, campaign: str) -> bool:
    """Whether a worker that lives has taken the campaign: it may be about to start a process, which
    carries out a request.
    """
    if queue is None:
        return False
    runs = [one for one in queue.runs() if one.campaign == campaign]
    takers = {one.worker for one in runs if one.taken and not one.stalled}
    return bool(takers - _dead(queue))


def _dead(queue: Queue) -> set[int]:
    """The workers of this machine whose process has ended: their silence need not be awaited."""
    return {each.id for each in queue.workers() if is_gone(each.holder)}


def _with_worker(campaign: str) -> str:
    return (
        f"campaign {campaign} is not running: a worker has it, and is just starting or ending its "
        "run; try again in a few seconds"
    )


def _off_queue(asked_by: str, now: datetime) -> NewEvent:
    return NewEvent(now, "off-queue", f"taken off the queue, as requested from {asked_by}")


def _end(
    store: Store, campaign: Campaign, wish: Wish, reason: str, now: datetime, rest: str = ""
) -> None:
    """End a campaign that no process runs. ``rest``: what is left to do."""
    state, kind = _ENDS[wish]
    # The wish is stored as data, because readers of the event rely on it.
    message = f"campaign {state}; {rest}" if rest else f"campaign {state}"
    event = NewEvent(now, kind, message, {"wish": str(wish)})
    # A process may have resumed it meanwhile, and would not notice.
    store.move_campaign(campaign.id, state, reason, event, before=campaign.state)


def _restore(verifies: bool) -> str:
    """What restores the testbed of a campaign, or a verification, that cannot be resumed."""
    from tuner.services.kinds import ways_to_restore

    again = "'fstune verify', run again," if verifies else "any later campaign there"
    return f"{again} does that, and so do {ways_to_restore()}"
