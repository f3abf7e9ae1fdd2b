"""Applications of configurations: the durable record of who changed what, and the values before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from tuner.applications import Application
from tuner.errors import ConflictError, NotFoundError
from tuner.model import Holder
from tuner.states import IN_FORCE, UNFINISHED, ApplicationState, EventKind
from tuner.store import queries, tables
from tuner.store.rows import NewEvent, record, values
from tuner.store.store import Store

#: The kinds of events that request the next state; their data name the ``application``.
_REQUESTS = (EventKind.APPLY_REQUESTED, EventKind.ROLLBACK_REQUESTED)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NEWEST = (tables.application.c.planned.desc(), tables.application.c.id.desc())


class Applications:
    """The applications of one store. Each method is one transaction; StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Both share the one open database of the store.
        self._database = store._database

    def add(self, application: Application, event: NewEvent) -> Application:
        """Store a new application and its event. NotFoundError: no such campaign."""
        row = values(tables.application, application)

        def add(connection: Connection) -> Application:
            queries.campaign_row(connection, application.campaign, lock=True)
            connection.execute(insert(tables.application).values(row))
            queries.add_event(connection, application.campaign, event)
            return application

        return self._database.write(add)

    def get(self, application: str) -> Application:
        """Return the application with this identifier. NotFoundError."""
        rows = self._some(tables.application.c.id == application)
        if not rows:
            raise NotFoundError(f"there is no application {application}; see 'fstune applications'")
        return rows[0]

    def all(self) -> list[Application]:
        """Return all applications, newest first."""
        return self._some()

    def of(self, campaign: str) -> list[Application]:
        """Return the applications of a campaign, newest first."""
        return self._some(tables.application.c.campaign == campaign)

    def in_force(
        self, *, testbed: str | None = None, campaign: str | None = None
    ) -> list[Application]:
        """Return the applications that are, or may be, in force, of a testbed or of a campaign. The
        most recently applied one comes first, no matter when it was planned.
        """
        table = tables.application
        where: list[ColumnElement[bool]] = [table.c.state.in_(IN_FORCE)]
        if testbed is not None:
            where.append(table.c.testbed == testbed)
        if campaign is not None:
            where.append(table.c.campaign == campaign)
        return sorted(self._some(*where), key=lambda one: one.changed, reverse=True)

    def unfinished(self, testbeds: Collection[str]) -> list[Application]:
        """Return the applications on these testbeds that are, or were, in progress."""
        table = tables.application
        return self._some(table.c.testbed.in_(testbeds), table.c.state.in_(UNFINISHED))

    def move(
        self,
        application: str,
        state: ApplicationState,
        reason: str,
        by: str,
        event: NewEvent,
        *,
        keep_request: bool = False,
    ) -> Application:
        """Change the state of an application at the time of ``event``, and clear the request for it
        unless ``keep_request``. ConflictError: not a valid transition.

        If a clock was set back, the time is just after that of the last change of any other, since
        a rollback begins with what was changed last.
        """
        table = tables.application
        this = table.c.id == application
        # One that is kept may be made at this moment: it is left alone.
        cleared = {} if keep_request else {"asked_by": None}

        def move(connection: Connection) -> Application:
            rows = self._read(connection, this)
            if not rows:
                raise NotFoundError(f"there is no application {application}")
            queries.campaign_row(connection, rows[0].campaign, lock=True)
            queries.move(
                connection,
                table,
                this,
                f"application {application}",
                state,
                reason=reason,
                changed=max(event.at, self._after_others(connection, application)),
                changed_by=by,
                **cleared,
            )
            queries.add_event(connection, rows[0].campaign, event)
            return self._read(connection, this)[0]

        return self._database.write(move)

    def _after_others(self, connection: Connection, application: str) -> datetime:
        """The earliest time after the last change of every other application."""
        changed = tables.application.c.changed
        query = select(changed).where(tables.application.c.id != application)
        newest = connection.execute(query.order_by(changed.desc()).limit(1)).scalar()
        return _LONG_AGO if newest is None else newest + timedelta(microseconds=1)

    def ask(
        self, application: str, state: ApplicationState, by: str, event: NewEvent
    ) -> Application:
        """Record who requested the next state. ConflictError unless the application is in ``state``
        and nobody has requested it yet.
        """
        table = tables.application
        this = (table.c.id == application) & (table.c.state == state)

        def ask(connection: Connection) -> Application:
            for one in self._read(connection, table.c.id == application):
                queries.campaign_row(connection, one.campaign, lock=True)
            noted = update(table).where(this, table.c.asked_by.is_(None))
            if connection.execute(noted.values(asked_by=by)).rowcount != 1:
                raise ConflictError(
                    f"application {application} is no longer {state}, or the same was already "
                    "requested"
                )
            application_row = self._read(connection, table.c.id == application)[0]
            queries.add_event(connection, application_row.campaign, event)
            return application_row

        return self._database.write(ask)

    def unask(self, application: str) -> None:
        """Clear a request that was not carried out."""
        table = tables.application
        forget = update(table).where(table.c.id == application).values(asked_by=None)
        self._database.write(lambda connection: connection.execute(forget))

    def unask_all(self, has_ended: Callable[[Holder], bool], before: datetime) -> None:
        """Clear every request made ``before`` that time, unless a live process holds the testbed.
        ``has_ended``: whether a process has ended.
        """
        leases = self._store.leases()
        in_use = {lease.testbed for lease in leases if lease.is_live(has_ended)}
        for one in self._some(tables.application.c.asked_by.is_not(None)):
            events = self._store.events(one.campaign, kinds=_REQUESTS)
            at = [event.at for event in events if event.data.get("application") == one.id]
            if one.testbed not in in_use and all(time < before for time in at[-1:]):
                self.unask(one.id)

    def _some(self, *where: ColumnElement[bool]) -> list[Application]:
        return self._database.read(lambda connection: self._read(connection, *where))

    @staticmethod
    def _read(connection: Connection, *where: Any) -> list[Application]:
        rows = connection.execute(select(tables.application).where(*where).order_by(*_NEWEST))
        return [record(Application, row) for row in rows]
