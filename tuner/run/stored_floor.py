"""The stored floor of a campaign that chose it from its pilot.

The floor is stored before the first block of the search and read from then on, so that the campaign
keeps the floor that its certificates are tested against, whatever a later release would choose.
Whether floors are strict or bounded follows from the same pilot, and is stored with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tuner.model import Event
from tuner.plan.rules import Floors, Rules, with_floor
from tuner.run.event_writer import EventWriter
from tuner.states import EventKind
from tuner.store import Store


def tell_floor(writer: EventWriter, rules: Rules) -> None:
    """Store the floor of these rules, once, if the campaign chose it."""
    if rules.floor_reason:
        more = {"reason": rules.floor_reason, "floors": str(rules.floors)}
        message = f"floor: {rules.floor_reason}"
        writer.once(EventKind.FLOOR_CHOSEN, message, {"floor": rules.race.floor}, more)


def stored_floor(store: Store, campaign: str, rules: Rules) -> Rules:
    """Return the rules with the floor that the campaign has chosen, if any."""
    if not rules.auto_floor:
        return rules
    return chosen_floor(store.events(campaign, kinds=[EventKind.FLOOR_CHOSEN]), rules)


def chosen_floor(events: Iterable[Event], rules: Rules) -> Rules:
    """Return the rules with the floor, if any, and the kind of floors that these events record."""
    choice = _choice(events) if rules.auto_floor else None
    floor = None if choice is None else choice.data.get("floor")
    if choice is None or not isinstance(floor, float):
        return rules
    rules = with_floor(rules, floor, _reason(choice))
    if rules.floors is not Floors.AUTO:
        return rules
    floors = choice.data.get("floors")
    if floors in (Floors.STRICT, Floors.BOUNDED):
        return replace(rules, floors=Floors(floors))
    # Earlier releases did not store this: it follows from the power at the floor chosen then.
    pilot = None if rules.pilot is None else replace(rules.pilot, floor=floor)
    return replace(rules, pilot=pilot)


def floor_sentence(events: Iterable[Event]) -> str:
    """Return how the floor recorded in these events was chosen; "" if there is none."""
    choice = _choice(events)
    return "" if choice is None else _reason(choice)


def _choice(events: Iterable[Event]) -> Event | None:
    """The event that records the choice. A campaign chooses once, so the first event counts."""
    return next((event for event in events if event.kind == EventKind.FLOOR_CHOSEN), None)


def _reason(choice: Event) -> str:
    return str(choice.data.get("reason", ""))
