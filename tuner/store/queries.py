"""The queries of the store's methods, each run within the transaction of its caller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, insert, select, update

from tuner import states
from tuner.errors import ConflictError, NotFoundError
from tuner.model import (
    Campaign,
    ComponentEffect,
    Event,
    Lease,
    Recommendation,
)
from tuner.states import BlockState, EventKind, State, TrialState
from tuner.store import statements, tables
from tuner.store.rows import NewEvent, record, values
from tuner.time_use import TimeUse

_NEWEST_FIRST = (tables.campaign.c.created.desc(), tables.campaign.c.id.desc())


def campaign_row(connection: Connection, campaign: str, *, lock: bool = False) -> Row[Any]:
    """Return the row of a campaign; NotFoundError. ``lock`` locks it until the end of the
    transaction.
    """
    query = statements.LOCKED_CAMPAIGN if lock else statements.CAMPAIGN
    row = connection.execute(query, {"of": campaign}).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no campaign {campaign}")
    return row


def campaigns(connection: Connection, *where: ColumnElement[bool]) -> list[Campaign]:
    """Return the campaigns matching ``where``, newest first, each with its answer."""
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
    rows = connection.execute(select(table).where(*where).order_by(*_NEWEST_FIRST))
    return [
        record(Campaign, row, recommendation=answers.get(row.id), time_use=record(TimeUse, row))
        for row in rows
    ]


def verifications(connection: Connection, campaigns: Collection[str]) -> frozenset[str]:
    """Return those of these campaigns, given by identifier, that are verifications."""
    event = tables.event.c
    query = select(event.campaign).where(
        event.campaign.in_(campaigns), event.kind == EventKind.VERIFICATION
    )
    return frozenset(connection.scalars(query))


def resolve(connection: Connection, reference: str, where: str) -> str:
    """Return the identifier for a reference: an identifier, a unique prefix of one, a unique name,
    or ``last``.

    Raises NotFoundError, which names a near campaign in the database ``where``, if any.
    """
    table = tables.campaign
    # An argument that is not valid UTF-8 cannot even be sent to the database.
    ours = reference.isascii()
    if ours and connection.scalar(select(table.c.id).where(table.c.id == reference)) is not None:
        return reference
    query = select(table.c.id, table.c.name).order_by(*_NEWEST_FIRST)
    names: dict[str, str] = {row.id: row.name for row in connection.execute(query)}
    if not names:
        raise NotFoundError(f"there is no campaign in {where}; start one: fstune run FILE")
    if reference == "last":
        # A campaign that was refused before its first block must not hide the one the user means.
        has_block = (
            select(tables.block.c.number).where(tables.block.c.campaign == table.c.id).exists()
        )
        # Nor must a verification: the user means the campaign that it verifies.
        own_events = tables.event.c.campaign == table.c.id
        kind = tables.event.c.kind == EventKind.VERIFICATION
        own = ~select(tables.event.c.number).where(own_events, kind).exists()
        for where_newest in ((has_block, own), (own,)):
            newest = select(table.c.id).where(*where_newest).order_by(*_NEWEST_FIRST).limit(1)
            if (identifier := connection.scalar(newest)) is not None:
                return str(identifier)
        return next(iter(names))
    matching = [campaign for campaign in names if reference and campaign.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise NotFoundError(
            f"{len(matching)} identifiers begin with {reference}, the newest is {matching[0]}; "
            "give more characters"
        )
    same_name = [campaign for campaign, name in names.items() if name == reference]
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise NotFoundError(
            f"{len(same_name)} campaigns are called {reference!r}, the newest is {same_name[0]}; "
            "give its identifier"
        )
    # For a misspelt name, the message names the newest campaign with the nearest name, if near.
    by_name = {name: campaign for campaign, name in reversed(names.items())}
    near = get_close_matches(reference, [*names, *by_name], n=1)
    if not near:
        raise NotFoundError(f"there is no campaign {reference!r}; see 'fstune list'")
    nearest = by_name.get(near[0], near[0])
    raise NotFoundError(
        f"there is no campaign {reference!r}; the nearest is {nearest} ({names[nearest]})"
    )


def block_name(campaign: str, number: int) -> str:
    """Return the name of a block in messages."""
    return f"block {number} of campaign {campaign}"


def block_row(connection: Connection, campaign: str, number: int) -> Row[Any]:
    """Return the row of a block; NotFoundError."""
    this = {"of": campaign, "at": number}
    row = connection.execute(statements.BLOCK, this).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no {block_name(campaign, number)}")
    return row


def running_block(connection: Connection, campaign: str, number: int) -> Row[Any]:
    """Return the row of a running block; NotFoundError, ConflictError when it has ended."""
    row = block_row(connection, campaign, number)
    if row.state is not BlockState.RUNNING:
        what = block_name(campaign, number)
        raise ConflictError(f"{what} is {row.state}; it accepts no more measurements")
    return row


def move(
    connection: Connection,
    table: Table,
    this: ColumnElement[bool],
    what: str,
    new: State,
    **columns: object,
) -> None:
    """Change the state of the row ``this``, called ``what``, and other columns with it.

    Every change of state goes through here. It must be a valid transition, and nobody else may have
    changed the state since it was read. Raises NotFoundError and ConflictError.
    """
    old = connection.scalar(select(table.c.state).where(this))
    if old is None:
        raise NotFoundError(f"there is no {what}")
    states.move(what, old, new)
    changed = connection.execute(
        update(table).where(this, table.c.state == old).values(state=new, **columns)
    )
    if changed.rowcount != 1:
        raise ConflictError(f"{what} is no longer {old}; it cannot become {new}")


def end_block(
    connection: Connection,
    campaign: str,
    number: int,
    state: BlockState,
    reason: str,
    duration_s: float,
) -> None:
    """End a block; NotFoundError, ConflictError."""
    table = tables.block
    this = (table.c.campaign == campaign) & (table.c.number == number)
    what = block_name(campaign, number)
    move(connection, table, this, what, state, reason=reason, duration_s=duration_s)


def end_trials(connection: Connection, campaign: str, state: TrialState, reason: str) -> None:
    """Move every queued or running trial of a campaign into a final state."""
    table = tables.trial
    open_states = (TrialState.QUEUED, TrialState.RUNNING)
    of = table.c.campaign == campaign
    numbers = connection.scalars(select(table.c.number).where(of, table.c.state.in_(open_states)))
    for number in numbers.all():
        what = f"trial {number} of campaign {campaign}"
        this = of & (table.c.number == number)
        move(connection, table, this, what, state, reason=reason)


def add_time_use(connection: Connection, row: Row[Any], use: TimeUse) -> None:
    """Add to the time use of the campaign with this row, which the caller has locked."""
    table = tables.campaign
    total = values(table, record(TimeUse, row) + use)
    connection.execute(update(table).where(table.c.id == row.id).values(total))


def check_lease(connection: Connection, lease: Lease) -> None:
    """Raise ConflictError unless the lease is still valid."""
    table = tables.lease
    this = (table.c.testbed == lease.testbed) & (table.c.token == lease.token)
    # Locked, so that nobody can take over between this check and what relies on it.
    if connection.execute(select(table.c.token).where(this).with_for_update()).first() is None:
        raise ConflictError(
            f"testbed {lease.testbed} was taken over from campaign {lease.campaign}: this process "
            f"sent no heartbeat for {lease.limit_s:.0f} s"
        )


def add_event(connection: Connection, campaign: str, new: NewEvent) -> Event:
    """Store an event with the next number of its campaign, whose row the caller has locked."""
    last = connection.scalar(statements.LAST_EVENT, {"of": campaign})
    event = Event((last or 0) + 1, new.at, new.kind, new.message, new.data)
    connection.execute(insert(tables.event), values(tables.event, event, campaign=campaign))
    connection.execute(statements.UPDATED, {"of": campaign, "updated": new.at})
    return event
