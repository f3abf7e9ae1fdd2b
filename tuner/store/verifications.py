"""Requests for verification and their outcomes, stored as events of the campaign that is verified.

The data of an outcome have the number of the event that requested it as ``request``, null if it was
not requested over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, select

from tuner.errors import ConflictError
from tuner.model import Event, Holder
from tuner.states import EventKind
from tuner.store import queries, tables
from tuner.store.rows import NewEvent
from tuner.store.store import Store

#: The kinds of events about verifications.
KINDS = (EventKind.VERIFY_REQUESTED, EventKind.VERIFIED, EventKind.VERIFY_FAILED)


class Verifications:
    """The verifications of one store. Each change is one transaction; StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Both share the one open database of the store.
        self._database = store._database

    def of(self, campaign: str) -> list[Event]:
        """Return the events about verifications of a campaign, in order."""
        return self._store.events(campaign, kinds=KINDS)

    def ask(self, campaign: str, event: NewEvent) -> Event:
        """Store a request. ConflictError while an earlier one has no outcome."""

        def ask(connection: Connection) -> Event:
            queries.campaign_row(connection, campaign, lock=True)
            if _open(connection, tables.event.c.campaign == campaign):
                raise ConflictError(f"campaign {campaign} is being verified; wait for the result")
            return queries.add_event(connection, campaign, event)

        return self._database.write(ask)

    def fail(self, campaign: str, request: int, why: str) -> None:
        """Store the reason why a requested verification failed, unless it has an outcome."""
        message, data = f"not verified: {why}", {"request": request}
        event = NewEvent(datetime.now(UTC), EventKind.VERIFY_FAILED, message, data)

        def fail(connection: Connection) -> None:
            queries.campaign_row(connection, campaign, lock=True)
            if (campaign, request) in _open(connection, tables.event.c.campaign == campaign):
                queries.add_event(connection, campaign, event)

        self._database.write(fail)

    def fail_all(self, has_ended: Callable[[Holder], bool], before: datetime) -> None:
        """Mark every request made ``before`` that time without an outcome as cut off, unless a live
        process holds a testbed for it. ``has_ended``: whether a process has ended.
        """
        running = set()
        for lease in self._store.leases():
            if not lease.is_live(has_ended):
                continue
            for event in self._store.events(lease.campaign, kinds={EventKind.VERIFICATION}):
                running.add((event.data.get("verifies"), event.data.get("request")))
        older = tables.event.c.at < before
        for campaign, request in self._database.read(lambda connection: _open(connection, older)):
            if (campaign, request) not in running:
                self.fail(campaign, request, "it was cut off; request it again")


def _open(connection: Connection, *where: ColumnElement[bool]) -> list[tuple[str, int]]:
    """Return the campaign and event number of every request without an outcome."""
    table = tables.event
    columns = (table.c.campaign, table.c.number, table.c.kind, table.c.data)
    query = select(*columns).where(table.c.kind.in_(KINDS), *where)
    requests, outcomes = set[tuple[str, int]](), set[tuple[str, object]]()
    for row in connection.execute(query):
        if row.kind == EventKind.VERIFY_REQUESTED:
            requests.add((row.campaign, row.number))
        else:
            outcomes.add((row.campaign, row.data.get("request")))
    return sorted(requests - outcomes)
