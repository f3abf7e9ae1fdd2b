"""The floor that a campaign has chosen from its pilot, as it is stored.

It is written down before the first block of the search, and read ever after: whatever a later
release would choose, the campaign goes on with what its certificates are tested against.
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.campaign.event_writer import EventWriter
from tuner.campaign.rules import Rules, with_floor
from tuner.model import Event
from tuner.states import EventKind
from tuner.store import Store


def tell_floor(writer: EventWriter, rules: Rules) -> None:
    """Write down, once, the floor of these rules if it was chosen."""
    if rules.floor_reason:
        more = {"reason": rules.floor_reason}
        said = f"floor: {rules.floor_reason}"
        writer.once(EventKind.FLOOR_CHOSEN, said, {"floor": rules.race.floor}, more)


def stored_floor(store: Store, campaign: str, rules: Rules) -> Rules:
    """The rules with the floor that the campaign has chosen, if it has."""
    if not rules.auto_floor:
        return rules
    return chosen_floor(store.events(campaign, kinds=[EventKind.FLOOR_CHOSEN]), rules)


def chosen_floor(events: Iterable[Event], rules: Rules) -> Rules:
    """The rules with the floor that these events tell of, if one does."""
    for event in events:
        floor = event.data.get("floor")
        if rules.auto_floor and event.kind == EventKind.FLOOR_CHOSEN and isinstance(floor, float):
            return with_floor(rules, floor, str(event.data.get("reason", "")))
    return rules


def floor_sentence(events: Iterable[Event]) -> str:
    """How the floor that these events tell of was chosen, "" where none was."""
    told = [event for event in events if event.kind == EventKind.FLOOR_CHOSEN]
    return str(told[-1].data.get("reason", "")) if told else ""
