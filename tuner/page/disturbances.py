"""Disturbances of the measurements, and their places in the series of blocks. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from tuner.model import Event
from tuner.results.drift import DriftPoint
from tuner.run.leftovers import still_left
from tuner.states import EventKind

#: Kinds of events that report a disturbance of the measurements.
DISTURBING: Final = (
    EventKind.BLOCK_VOID,
    EventKind.FAILED,
    EventKind.PAUSED,
    EventKind.GUARD,
    EventKind.LEFTOVERS,
    EventKind.MEASURED_AGAIN,
    EventKind.PILOT_WARNING,
    EventKind.RESTORE_FAILED,
    EventKind.RUN_DIED,
    EventKind.RUN_FAILED,
    EventKind.SHARED_MACHINE,
    EventKind.TESTBED_EFFECT,
    EventKind.TESTBED_LOST,
    EventKind.WORKER_LOST,
)


#: Kinds of events that ``disturbing`` needs.
CONCERNED: Final = (*DISTURBING, EventKind.LEFTOVERS_REMOVED)


def disturbing(events: Sequence[Event]) -> list[Event]:
    """Return the events that report a disturbance, in order, without files that are removed now."""
    left = still_left(events)
    of_kind = [event for event in events if event.kind in DISTURBING]
    return [event for event in of_kind if event.kind != EventKind.LEFTOVERS or event in left]


def disturbances(events: Sequence[Event], drift: Sequence[DriftPoint]) -> list[tuple[int, str]]:
    """Return each disturbance's message with the newest complete block that began before it.

    Disturbances before the first block are omitted.
    """
    started = [point.started for point in drift]
    rows = []
    for event in disturbing(events):
        if index := bisect_right(started, event.at):
            rows.append((drift[index - 1].block, event.message))
    return rows
