"""The queries behind the store's methods, each within its caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from difflib import get_close_matches
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, select, update

from tuner.errors import NotFoundError
from tuner.model import Campaign, ComponentEffect, Event, Recommendation, TimeUse
from tuner.states import BlockState
from tuner.store import tables
from tuner.store.rows import NewEvent, record, values

_NEWEST_FIRST = (tables.campaign.c.created.desc(), tables.campaign.c.id.desc())


def campaign_row(connection: Connection, campaign: str, *, lock: bool = False) -> Row[Any]:
    """Return the row of a campaign; NotFoundError. ``lock`` keeps it for this transaction."""
    query = select(tables.campaign).where(tables.campaign.c.id == campaign)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no campaign {campaign}")
    return row


def campaigns(connection: Connection, *where: ColumnElement[bool]) -> list[Campaign]:
    """Return the campaigns for which ``where`` holds, newest first, each with its answer."""
    table, recommendation, effect = tables.campaign, tables.recommendation, tables.effect
    effects: dict[str, dict[str, ComponentEffect]] = defaultdict(dict)
    joined = select(effect).join(table, effect.c.campaign == table.c.id)
    for row in connection.execute(joined.where(*where).order_by(effect.c.component)):
        effects[row.campaign][row.component] = record(ComponentEffect, row)
    joined = select(recommendation).join(table, recommendation.c.campaign == table.c.id)
    answers = {
        row.campaign: record(Recommendation, row, components=effects.get(row.campaign, {}))
        for row in connection.execute(joined.where(*where))
    }
    found = connection.execute(select(table).where(*where).order_by(*_NEWEST_FIRST))
    return [
        record(Campaign, row, recommendation=answers.get(row.id), time_use=record(TimeUse, row))
        for row in found
    ]


def resolve(connection: Connection, reference: str, where: str) -> str:
    """Return the identifier meant: itself, the only one that begins so, or of the ``last`` one.

    Raises NotFoundError, which names the nearest campaign in the database ``where``.
    """
    table = tables.campaign
    query = select(table.c.id, table.c.name).order_by(*_NEWEST_FIRST)
    names: dict[str, str] = {row.id: row.name for row in connection.execute(query)}
    if not names:
        raise NotFoundError(f"there is no campaign in {where}")
    if reference == "last":
        # One that was refused before its first block must not hide the one that the user means.
        measured = set(connection.scalars(select(tables.block.c.campaign).distinct()))
        return next((known for known in names if known in measured), next(iter(names)))
    if reference in names:
        return reference
    matching = [known for known in names if reference and known.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise NotFoundError(
            f"{len(matching)} campaigns begin with {reference}, the newest is {matching[0]}; "
            "write more of it"
        )
    # Whoever gives a name instead of an identifier is told the newest campaign of that name.
    by_name = {name: known for known, name in reversed(names.items())}
    near = get_close_matches(reference, [*names, *by_name], n=1, cutoff=0.0)[0]
    nearest = near if near in names else by_name[near]
    raise NotFoundError(
        f"there is no campaign {reference!r}; the nearest is {nearest} ({names[nearest]})"
    )


def block_name(campaign: str, number: int) -> str:
    """Return what a block is called in messages."""
    return f"block {number} of campaign {campaign}"


def block_row(connection: Connection, campaign: str, number: int) -> Row[Any]:
    """Return the row of a block; NotFoundError."""
    table = tables.block
    row = connection.execute(
        select(table).where(table.c.campaign == campaign, table.c.number == number)
    ).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no {block_name(campaign, number)}")
    return row


def end_block(
    connection: Connection,
    campaign: str,
    number: int,
    state: BlockState,
    reason: str,
    duration_s: float,
) -> None:
    """Write how a block ended."""
    table = tables.block
    connection.execute(
        update(table)
        .where(table.c.campaign == campaign, table.c.number == number)
        .values(state=state, reason=reason, duration_s=duration_s)
    )


def add_event(connection: Connection, campaign: str, new: NewEvent) -> Event:
    """Store an event under the next number of its campaign, whose row the caller has locked."""
    table = tables.event
    last = connection.scalar(select(func.max(table.c.number)).where(table.c.campaign == campaign))
    event = Event((last or 0) + 1, new.at, new.kind, new.message, new.data)
    connection.execute(insert(table).values(values(table, event, campaign=campaign)))
    connection.execute(
        update(tables.campaign).where(tables.campaign.c.id == campaign).values(updated=new.at)
    )
    return event
