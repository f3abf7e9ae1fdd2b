"""Describe a campaign's current activity and pending request from its snapshot. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tuner.model import BASELINE, Block, Measurement, Trial
from tuner.page.names import KINDS, called
from tuner.page.snapshot import Snapshot
from tuner.plan.budget import Cost
from tuner.records.differences import changes
from tuner.states import CampaignState, EventKind, TrialState
from tuner.text import counted

_REQUESTS = {
    EventKind.PAUSE_REQUESTED: "A pause was requested; it happens after the current arm.",
    EventKind.CANCEL_REQUESTED: "Cancellation was requested; it happens after the current arm.",
    EventKind.RESUME_REQUESTED: "A resume was requested; its run is starting.",
}
_ANSWERS = ("campaign-", EventKind.START_FAILED, EventKind.TESTBED_READY)


def headline(snapshot: Snapshot, *, absent: bool = False) -> str:
    """One-line activity shown next to the state. ``absent``: its process sends no heartbeats."""
    campaign = snapshot.campaign
    if absent:
        return "its process is silent"
    if campaign.state is not CampaignState.RUNNING:
        return campaign.reason
    if not snapshot.running:
        newest = f" ({snapshot.events[-1].message})" if snapshot.events else ""
        return f"between two blocks{newest}"
    block = snapshot.running[0]
    return f"{KINDS[block.kind]}, round {block.round}, block {block.number}"


def details(snapshot: Snapshot, *, absent: bool = False) -> tuple[str, ...]:
    """Lines for the current and previous arm of each running block, and for the open request."""
    lines = []
    if snapshot.campaign.state is CampaignState.RUNNING and not absent:
        trials = {trial.number: trial for trial in snapshot.trials}
        several = len(snapshot.running) > 1
        for block in snapshot.running:
            where = f"On {block.testbed}: " if several and block.testbed else ""
            lines.append(where + _arm(block, trials))
            if block.measurements:
                lines.append(where + _last_arm(block.measurements[-1]))
    if (request := _open_request(snapshot)) is not None:
        lines.append(request)
    return tuple(lines)


def _arm(block: Block, trials: Mapping[int, Trial]) -> str:
    """Name the current arm: the first after the last measured one whose trial has not failed."""
    measured = {m.trial for m in block.measurements}
    last = max((block.order.index(number) for number in measured), default=-1)
    of = f"Block {block.number}, {len(measured)} of {counted(len(block.order), 'arm')} measured"
    for place, number in enumerate(block.order[last + 1 :], start=last + 2):
        trial = trials.get(number)
        if trial is None or trial.state is not TrialState.FAILED:
            return f"{of}; current arm {place}: {called(number)}{_what(trial, trials)}."
    return f"{of}; it is being completed."


def _what(trial: Trial | None, trials: Mapping[int, Trial]) -> str:
    if trial is None or trial.number == BASELINE or BASELINE not in trials:
        return ""
    text = changes(trials[BASELINE].configuration, trial.configuration)
    return f" ({text})" if text else " (same settings as the baseline)"


def _last_arm(measurement: Measurement) -> str:
    what = ", ".join(measurement.actions) or "nothing to restart"
    return (
        f"The previous arm, {called(measurement.trial)}: {what} ({measurement.apply_s:.1f} s), "
        f"workload {measurement.workload_s:.1f} s."
    )


def _open_request(snapshot: Snapshot) -> str | None:
    """The newest request not yet answered by a later event."""
    for event in reversed(snapshot.events):
        if event.kind in _REQUESTS:
            return _REQUESTS[EventKind(event.kind)]
        if event.kind.startswith(_ANSWERS):
            return None
    return None


def budget_share(snapshot: Snapshot) -> float | None:
    """Fraction of the campaign's budget used; None if its rules are unknown."""
    return None if snapshot.rules is None else _use(snapshot).used(snapshot.rules)


def expected_end(snapshot: Snapshot) -> datetime | None:
    """When the budget will be used up at the current rate; None if unknown."""
    if snapshot.campaign.state is not CampaignState.RUNNING or snapshot.rules is None:
        return None
    left_s = _use(snapshot).left_s(snapshot.campaign.time_use, snapshot.rules)
    return snapshot.campaign.updated + timedelta(seconds=left_s) if left_s else None


def _use(snapshot: Snapshot) -> Cost:
    return Cost(snapshot.measuring_s, snapshot.measured)
