"""Writer of a campaign's events: each one is stored, then shown."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.model import Event, Trial
from tuner.records.standing import Observer
from tuner.states import CampaignState, EventData, EventKind
from tuner.store import NewEvent, Store

#: Kinds of events that are written only once per campaign, however often their cause occurs.
_ONCE_ONLY = (
    EventKind.GUARD,
    EventKind.SHARED_MACHINE,
    EventKind.TESTBED_EFFECT,
    EventKind.TRIAL_PROMOTED,
    EventKind.FLOOR_CHOSEN,
)


class EventWriter:
    """Creates, stores and shows the events of one campaign."""

    def __init__(self, store: Store, campaign: str, observer: Observer) -> None:
        self._store = store
        self._id = campaign
        self._observer = observer
        self._once: list[tuple[str, EventData]] | None = None

    def event(self, kind: str, message: str, data: EventData | None = None) -> NewEvent:
        """Create an event with the current time, to be stored together with its cause."""
        return NewEvent(datetime.now(UTC), kind, message, data or {})

    def trial(self, trial: Trial) -> NewEvent:
        """Create the event for a new trial."""
        lines = [
            f"{name}: {' '.join(flags) or '(defaults)'}" for name, flags in trial.flags.items()
        ]
        message = f"trial {trial.number} ({trial.origin}): {'; '.join(lines)}"
        return self.event(
            EventKind.TRIAL_ADDED, message, {"trial": trial.number, "round": trial.round}
        )

    def show(self, event: Event) -> None:
        """Show an event that has been stored."""
        self._observer.say(event)

    def tell(self, kind: str, message: str, data: EventData | None = None) -> None:
        """Store a separate event and show it."""
        self.show(self._store.add_event(self._id, self.event(kind, message, data)))

    def once(self, kind: str, message: str, what: EventData, more: EventData | None = None) -> None:
        """Store and show an event about ``what``, unless the campaign already has one. ``more``:
        additional data of the event.
        """
        if self._once is None:
            past = self._store.events(self._id, kinds=_ONCE_ONLY)
            self._once = [(e.kind, e.data) for e in past]
        for earlier_kind, earlier in self._once:
            if earlier_kind == kind and what.items() <= earlier.items():
                return
        data = {**what, **(more or {})}
        self._once.append((kind, data))
        self.tell(kind, message, data)

    def move(
        self,
        state: CampaignState,
        reason: str,
        kind: str,
        message: str,
        data: EventData | None = None,
    ) -> None:
        """Move the campaign to a state, and show the event."""
        event = self.event(kind, message, data)
        self.show(self._store.move_campaign(self._id, state, reason, event))
