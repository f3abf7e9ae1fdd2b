"""What a campaign does now and what it has been asked to, from its rows and newest events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tuner.campaign.budget import Cost
from tuner.model import BASELINE, Block, Measurement, Trial
from tuner.page.names import KINDS, called
from tuner.page.snapshot import Snapshot
from tuner.records.differences import changes
from tuner.states import CampaignState, EventKind, TrialState
from tuner.text import counted

_ASKED = {
    EventKind.PAUSE_REQUESTED: "It was asked to pause, and does so after the arm in hand.",
    EventKind.CANCEL_REQUESTED: "It was asked to end, and does so after the arm in hand.",
    EventKind.RESUME_REQUESTED: "It was asked to go on; its run begins.",
}
_ANSWERED = ("campaign-", "start-failed", "testbed-ready")


def doing(seen: Snapshot, *, absent: bool = False) -> str:
    """What it does, in one line. ``absent``: its process is not heard from."""
    campaign = seen.campaign
    if absent:
        return "running by its state, but not heard from"
    if campaign.state is not CampaignState.RUNNING:
        return f"{campaign.state}: {campaign.reason}" if campaign.reason else str(campaign.state)
    if not seen.running:
        newest = f" ({seen.events[-1].message})" if seen.events else ""
        return f"running, between two blocks{newest}"
    block = seen.running[0]
    return f"running: {KINDS[block.kind]}, race {block.race}, block {block.number}"


def now(seen: Snapshot, *, absent: bool = False) -> tuple[str, ...]:
    """The arm in hand of each block that runs, the one before it, and what was asked for."""
    found = []
    if seen.campaign.state is CampaignState.RUNNING and not absent:
        trials = {trial.number: trial for trial in seen.trials}
        several = len(seen.running) > 1
        for block in seen.running:
            where = f"On {block.testbed}: " if several and block.testbed else ""
            found.append(where + _arm(block, trials))
            if block.measurements:
                found.append(where + _done(block.measurements[-1]))
    if (asked := _asked(seen)) is not None:
        found.append(asked)
    return tuple(found)


def _arm(block: Block, trials: Mapping[int, Trial]) -> str:
    """The first arm after the last measured one whose trial has not failed meanwhile."""
    measured = {m.trial for m in block.measurements}
    last = max((block.order.index(number) for number in measured), default=-1)
    of = f"Block {block.number}, {len(measured)} of {counted(len(block.order), 'arm')} measured"
    for place, number in enumerate(block.order[last + 1 :], start=last + 2):
        trial = trials.get(number)
        if trial is None or trial.state is not TrialState.FAILED:
            return f"{of}; arm {place} in hand: {called(number)}{_what(trial, trials)}."
    return f"{of}; it is being put together."


def _what(trial: Trial | None, trials: Mapping[int, Trial]) -> str:
    if trial is None or trial.number == BASELINE or BASELINE not in trials:
        return ""
    text = changes(trials[BASELINE].configuration, trial.configuration)
    return f" ({text})" if text else " (same settings as the baseline)"


def _done(measurement: Measurement) -> str:
    what = ", ".join(measurement.actions) or "nothing to restart"
    return (
        f"The arm before it, {called(measurement.trial)}: {what} ({measurement.apply_s:.1f} s), "
        f"workload {measurement.workload_s:.1f} s."
    )


def _asked(seen: Snapshot) -> str | None:
    """What was asked for and has not been answered by a later event."""
    for event in reversed(seen.events):
        if event.kind in _ASKED:
            return _ASKED[EventKind(event.kind)]
        if event.kind.startswith(_ANSWERED):
            return None
    return None


def used(seen: Snapshot) -> float | None:
    """The part of its budget that a campaign has used; None when its rules are not known."""
    return None if seen.rules is None else _spent(seen).used(seen.rules)


def expected_end(seen: Snapshot) -> datetime | None:
    """When the budget will be used up if it goes on as it has; None where that cannot be told."""
    if seen.campaign.state is not CampaignState.RUNNING or seen.rules is None:
        return None
    left_s = _spent(seen).left_s(seen.campaign.time_use, seen.rules)
    return seen.campaign.updated + timedelta(seconds=left_s) if left_s else None


def _spent(seen: Snapshot) -> Cost:
    return Cost(seen.measuring_s, seen.measured)
