"""The context in which the arms of a block are measured: testbed, ledger, and where to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.records.standing import Observer
from tuner.run.ledger import Ledger
from tuner.services.testbed import ReadyTestbed
from tuner.states import EventData
from tuner.store import NewEvent, Store

MakeEvent = Callable[[str, str, EventData | None], NewEvent]


@dataclass(frozen=True, slots=True)
class RunContext:
    """A campaign on an open testbed.

    ``seed``: the campaign's. ``check_stop``: called before a workload run and after a failed one;
    whatever it raises ends the block.
    """

    store: Store
    campaign: str
    ready: ReadyTestbed
    ledger: Ledger
    observer: Observer
    event: MakeEvent
    seed: int
    check_stop: Callable[[], None]

    def tell(self, kind: str, message: str, data: EventData) -> None:
        """Store an event and show it."""
        self.observer.say(self.store.add_event(self.campaign, self.event(kind, message, data)))
