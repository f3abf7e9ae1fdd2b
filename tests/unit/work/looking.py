"""What the database tells of runs: who measured when and where, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tuner.model import Event
from tuner.store import Store


@dataclass(frozen=True)
class Seen:
    """A run by its events: from its beginning to the last thing that it told."""

    testbed: str
    worker: int
    began: datetime
    ended: datetime

    def overlaps(self, other: Seen) -> bool:
        return self.began <= other.ended and other.began <= self.ended


def events_of(store: Store, campaign: str) -> list[Event]:
    return store.events(campaign)


def runs_of(events: Sequence[Event], testbed: str) -> list[Seen]:
    """The runs of one campaign; what others tell of it is not of a run."""
    found: list[Seen] = []
    worker = 0
    for event in events:
        if event.kind == "worker-took":
            worker = int(str(event.data["worker"]))
        elif event.kind == "campaign-started":
            found.append(Seen(testbed, worker, event.at, event.at))
        elif found and event.kind not in ("worker-lost", "block-void"):
            last = found[-1]
            found[-1] = Seen(testbed, last.worker, last.began, event.at)
    return found


def decisions(store: Store, campaign: str) -> object:
    """All that a user would notice: who was tried, how that ended, and the answer."""
    answer = store.campaign(campaign).recommendation
    assert answer is not None
    return (
        [(t.configuration, t.race, t.origin, t.state) for t in store.trials(campaign)],
        (answer.answer, answer.trial, answer.configuration, answer.flags),
    )
