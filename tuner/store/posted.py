"""Requests that may arrive twice, each with the campaign that came of it: stored as one, or not.

So there is no moment in which a request counts as under way: whoever dies in it has done nothing,
or has stored the campaign, which the next one that asks begins if nobody has.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from tuner.errors import ConflictError
from tuner.store import tables

_FORGOTTEN_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PostedRequest:
    """A request by its key, which is somebody's own, and its body."""

    key: str
    body: bytes


def campaign_of(connection: Connection, request: PostedRequest, now: datetime) -> str | None:
    """The campaign that came of a request of the last day, None when there is none.

    Raises ConflictError when its key was used for another request.
    """
    table = tables.posted
    connection.execute(delete(table).where(table.c.at < now - _FORGOTTEN_AFTER))
    row = connection.execute(select(table).where(table.c.key == _digest(request.key))).one_or_none()
    if row is None or row.campaign is None:  # the latter of an earlier release, which died there
        return None
    if row.body != _digest(request.body):
        raise ConflictError("this Idempotency-Key was used for another request")
    return str(row.campaign)


def keep(connection: Connection, request: PostedRequest, campaign: str, now: datetime) -> None:
    """Note what has come of a request."""
    table, key = tables.posted, _digest(request.key)
    unfinished = (table.c.key == key) & table.c.campaign.is_(None)
    connection.execute(delete(table).where(unfinished))
    row = {"key": key, "body": _digest(request.body), "campaign": campaign, "at": now}
    connection.execute(insert(table).values(row))


def _digest(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
