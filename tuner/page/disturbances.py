"""Disturbances of the measurements, and their places in the series of blocks. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from tuner.model import Event
from tuner.results.drift import DriftPoint
from tuner.run.leftovers import LEFTOVERS, LEFTOVERS_OVER, still_left

#: Kinds of events that report a disturbance of the measurements.
DISTURBING: Final = (
    "block-void",
    "campaign-failed",
    "campaign-paused",
    "guard",
    LEFTOVERS,
    "measured-again",
    "pilot-warning",
    "restore-failed",
    "run-died",
    "run-failed",
    "shared-machine",
    "testbed-effect",
    "testbed-lost",
    "worker-lost",
)


#: Kinds of events that ``disturbing`` needs.
CONCERNED: Final = (*DISTURBING, LEFTOVERS_OVER)


def disturbing(events: Sequence[Event]) -> list[Event]:
    """Return the events that report a disturbance, in order, without files that are removed now."""
    left = still_left(events)
    return [e for e in events if e.kind in DISTURBING and (e.kind != LEFTOVERS or e in left)]


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
