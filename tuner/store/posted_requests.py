"""Requests that may arrive twice, each stored in one transaction with the campaign that it created.

So no request is ever stored as in progress: a process that dies while handling one has either done
nothing, or stored the campaign. A repeated request then starts that campaign unless it was started
already.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from tuner.errors import ConflictError
from tuner.store import tables
from tuner.store.open_store import OpenStore

_FORGOTTEN_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PostedRequest:
    """A request: the key chosen by its client, and its body."""

    key: str
    body: bytes


def campaign_of(connection: Connection, request: PostedRequest, now: datetime) -> str | None:
    """Return the campaign created by a request within the last day, None when there is none.
    Older requests are deleted.

    Raises ConflictError when its key was used for another request.
    """
    table = tables.posted
    connection.execute(delete(table).where(table.c.at < now - _FORGOTTEN_AFTER))
    row = connection.execute(select(table).where(table.c.key == _digest(request.key))).one_or_none()
    if row is None or row.campaign is None:  # the latter: left by an earlier release
        return None
    if row.body != _digest(request.body):
        raise ConflictError("this Idempotency-Key was used for another request")
    return str(row.campaign)


def campaign_of_request(store: OpenStore, request: PostedRequest, now: datetime) -> str | None:
    """Return what ``campaign_of`` returns, in a transaction of its own. ConflictError."""
    return store._database.write(lambda connection: campaign_of(connection, request, now))


def keep(connection: Connection, request: PostedRequest, campaign: str, now: datetime) -> None:
    """Record the campaign created by a request."""
    table, key = tables.posted, _digest(request.key)
    unfinished = (table.c.key == key) & table.c.campaign.is_(None)
    connection.execute(delete(table).where(unfinished))
    row = {"key": key, "body": _digest(request.body), "campaign": campaign, "at": now}
    connection.execute(insert(table).values(row))


def _digest(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
