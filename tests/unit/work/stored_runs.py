"""Runs and decisions as recorded in the database: who measured when and where, and the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tuner.model import Event
from tuner.store import Store


@dataclass(frozen=True)
class RunSpan:
    """A run as reconstructed from its events: from its start to its last event."""

    testbed: str
    worker: int
    began: datetime
    finished: datetime

    def overlaps(self, other: RunSpan) -> bool:
        return self.began <= other.finished and other.began <= self.finished


def kinds(store: Store, campaign: str) -> list[str]:
    """Return the kinds of all events of a campaign."""
    return [event.kind for event in store.events(campaign)]


def runs_of(events: Sequence[Event], testbed: str) -> list[RunSpan]:
    """Return the runs of one campaign; events stored about it by others belong to no run."""
    runs: list[RunSpan] = []
    worker = 0
    for event in events:
        if event.kind == "worker-took":
            worker = int(str(event.data["worker"]))
        elif event.kind == "campaign-started":
            runs.append(RunSpan(testbed, worker, event.at, event.at))
        elif runs and event.kind not in ("worker-lost", "block-void"):
            last = runs[-1]
            runs[-1] = RunSpan(testbed, last.worker, last.began, event.at)
    return runs


def decisions(store: Store, campaign: str) -> object:
    """Return everything a user would notice: which trials, how they ended, and the answer."""
    answer = store.campaign(campaign).recommendation
    assert answer is not None
    return (
        [(t.configuration, t.round, t.origin, t.state) for t in store.trials(campaign)],
        (answer.answer, answer.trial, answer.configuration, answer.flags),
    )
