"""Leases of testbeds and requests to campaigns; what a campaign measured with, and its priors."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from tuner.errors import ConflictError, InUseError
from tuner.model import Aspect, Campaign, Event, Holder, Lease, Prior, Request, Wish
from tuner.states import ENDS_WAITING, UNFINISHED, BlockState, CampaignState, EventKind
from tuner.store import queries, statements, tables
from tuner.store.open_store import OpenStore
from tuner.store.rows import NewEvent, record, values


@dataclass(frozen=True, slots=True)
class Running:
    """A snapshot of what is running. ``campaigns``: those in state running, or with a leased
    testbed, newest first; ``requests``: the pending request to each of them, by identifier;
    ``verifications``: the identifiers of those that are verifications; ``applications``: by testbed
    and campaign, the identifier of one that is, or was, in progress there.
    """

    campaigns: list[Campaign]
    leases: list[Lease]
    requests: dict[str, Request]
    verifications: frozenset[str] = frozenset()
    applications: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Later:
    """What to do when a testbed is in use, as clauses. ``runs``: where the same campaign is being
    run there.
    """

    free: str
    runs: str


#: For a command that leaves nothing behind when it is refused.
REPEAT = Later("when it is free, repeat this", "when it has ended, repeat this")


class LeaseStore(OpenStore):
    """Leases of testbeds, requests, identities and priors of campaigns; see ``Store``."""

    # Testbeds

    def take_testbeds(
        self,
        campaign: str,
        testbeds: Sequence[str],
        holder: Holder,
        limit_s: float,
        has_ended: Callable[[Holder], bool],
        event: NewEvent,
        later: Later = REPEAT,
    ) -> list[Lease]:
        """Lease testbeds to one process for one campaign, all or none, in the order of their names.

        A process that ``has_ended``, or sent no heartbeat for its promised ``limit_s``, loses
        testbed and campaign: its running block is voided, with ``event`` as the record of that.
        Raises InUseError when a live process uses a testbed or runs the campaign, with what to do
        ``later``.
        """
        table = tables.lease
        names = sorted(testbeds)

        def take(connection: Connection) -> list[Lease]:
            # In one order, and before any lease, so that two processes never wait for each other.
            for one in sorted({campaign, *self._running_on(connection, names)}):
                queries.campaign_row(connection, one, lock=True)
            there = or_(table.c.testbed.in_(names), table.c.campaign == campaign)
            for lease_there in self._leases(connection, there):
                if lease_there.is_live(has_ended):
                    raise InUseError(_in_use(connection, lease_there, campaign, later))
                mine = (table.c.testbed == lease_there.testbed) & (
                    table.c.token == lease_there.token
                )
                if connection.execute(delete(table).where(mine)).rowcount != 1:
                    what = f"testbed {lease_there.testbed}"
                    raise InUseError(f"{what} was just taken by another process; {later.free}")
            now = self._database.moment(connection)
            leases = []
            for name in names:
                self._void_blocks_on(connection, name, event)
                lease = Lease(name, campaign, secrets.token_hex(8), holder, now, 0.0, limit_s)
                row = values(table, lease, beat=now) | values(table, holder)
                connection.execute(insert(table).values(row))
                leases.append(lease)
            return leases

        # A transaction of its own: it is to last when the testbeds are refused.
        self._database.note_reachable()
        return self._database.write(take)

    def beat(self, lease: Lease) -> bool:
        """Record a heartbeat; return whether the lease is still valid."""
        table = tables.lease
        this = (table.c.testbed == lease.testbed) & (table.c.token == lease.token)

        def beat(connection: Connection) -> bool:
            now = self._database.moment(connection)
            return connection.execute(update(table).where(this).values(beat=now)).rowcount == 1

        self._database.note_reachable()
        return self._database.write(beat)

    def give_back(self, lease: Lease) -> None:
        """End a lease; has no effect when another process has taken over."""
        table = tables.lease
        this = (table.c.testbed == lease.testbed) & (table.c.token == lease.token)
        self._change(
            lease.campaign, lambda connection, _: connection.execute(delete(table).where(this))
        )

    def leases(self) -> list[Lease]:
        """Return the leases, ordered by testbed."""
        return self._database.read(self._leases)

    def refuse_used(self, testbeds: Collection[str], has_ended: Callable[[Holder], bool]) -> None:
        """Raise InUseError if a live process uses one of these testbeds, before a campaign for them
        is stored; ``take_testbeds`` is what keeps others away.
        """

        def look(connection: Connection) -> None:
            for lease in self._leases(connection, tables.lease.c.testbed.in_(testbeds)):
                if lease.is_live(has_ended):
                    raise InUseError(_in_use(connection, lease, "", REPEAT))

        self._database.read(look)

    def running(self, others: Collection[str] = ()) -> Running:
        """Return the campaigns that run by their state or in a process, and these ``others``."""
        table, request = tables.campaign, tables.request
        leased = table.c.id.in_(select(tables.lease.c.campaign))
        runs = (table.c.state == CampaignState.RUNNING) | leased
        where = runs | table.c.id.in_(others) if others else runs
        application = tables.application.c
        unfinished = select(application.testbed, application.campaign, application.id).where(
            application.state.in_(UNFINISHED)
        )

        def read(connection: Connection) -> Running:
            campaigns = queries.campaigns(connection, where)
            ids = [campaign.id for campaign in campaigns]
            of = select(request).where(request.c.campaign.in_(ids))
            requests = {row.campaign: record(Request, row) for row in connection.execute(of)}
            verifications = queries.verifications(connection, ids)
            rows = connection.execute(unfinished)
            applications = {(row.testbed, row.campaign): row.id for row in rows}
            leases = self._leases(connection)
            return Running(campaigns, leases, requests, verifications, applications)

        return self._database.read(read)

    def waits(self) -> list[tuple[Campaign, Event]]:
        """Return the paused campaigns that a process waits to continue, each with its event."""
        table, event = tables.campaign, tables.event
        other = event.alias()
        newest = (
            select(func.max(other.c.number))
            .where(other.c.campaign == table.c.id, other.c.kind.in_(ENDS_WAITING))
            .correlate(table)
            .scalar_subquery()
        )
        query = (
            select(event)
            .join(table, table.c.id == event.c.campaign)
            .where(table.c.state == CampaignState.PAUSED, event.c.number == newest)
            .where(event.c.kind == EventKind.WAITS)
        )

        def read(connection: Connection) -> list[tuple[Campaign, Event]]:
            events = {row.campaign: record(Event, row) for row in connection.execute(query)}
            campaigns = queries.campaigns(connection, table.c.id.in_(events))
            return [(campaign, events[campaign.id]) for campaign in campaigns]

        return self._database.read(read)

    def _leases(self, connection: Connection, where: Any = True) -> list[Lease]:
        now, up_since = self._database.moment(connection), self._database.up_since(connection)
        query = select(tables.lease).where(where).order_by(tables.lease.c.testbed)
        return [
            record(
                Lease,
                row,
                holder=record(Holder, row),
                # A clock that was set back leaves a beat in the future until the next one: if that
                # does not come, the process is silent too.
                beat_age_s=abs((now - max(row.beat, up_since)).total_seconds()),
            )
            for row in connection.execute(query).all()
        ]

    @staticmethod
    def _running_on(connection: Connection, testbeds: Collection[str]) -> list[str]:
        """The campaigns that have a running block on a testbed."""
        table = tables.block.c
        running = table.testbed.in_(testbeds) & (table.state == BlockState.RUNNING)
        return list(connection.scalars(select(table.campaign).where(running)))

    @staticmethod
    def _void_blocks_on(connection: Connection, testbed: str, event: NewEvent) -> None:
        """Void the running blocks that a dead process left on a testbed, of any campaign."""
        table = tables.block
        running = (table.c.testbed == testbed) & (table.c.state == BlockState.RUNNING)
        for block in connection.execute(
            select(table.c.campaign, table.c.number).where(running)
        ).all():
            queries.campaign_row(connection, block.campaign, lock=True)
            queries.end_block(
                connection, block.campaign, block.number, BlockState.VOID, event.message, 0.0
            )
            of_block = replace(event, data={"block": block.number, **event.data})
            queries.add_event(connection, block.campaign, of_block)

    # Requests

    def ask(self, campaign: str, request: Request, event: NewEvent) -> Event:
        """Store a request to a running campaign. A pause does not replace a cancellation."""
        table = tables.request

        def ask(connection: Connection, row: Row[Any]) -> Event:
            if row.state is not CampaignState.RUNNING:
                raise ConflictError(f"campaign {campaign} is {row.state}; it is not running")
            this = table.c.campaign == campaign
            before = connection.scalar(select(table.c.wish).where(this))
            if before is not None and request.wish in (before, Wish.PAUSE):
                raise ConflictError(f"campaign {campaign} was already asked to {before}")
            connection.execute(delete(table).where(this))
            connection.execute(insert(table).values(values(table, request, campaign=campaign)))
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, ask)

    def request(self, campaign: str) -> Request | None:
        """Return the pending request to a campaign."""
        query = select(tables.request).where(tables.request.c.campaign == campaign)

        def find(connection: Connection) -> Request | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else record(Request, row)

        return self._read(campaign, find)

    def drop_request(self, campaign: str) -> None:
        """Delete the pending request to a campaign: the run that it was made to has died."""
        of = {"of": campaign}
        self._change(campaign, lambda c, _: c.execute(statements.DROP_REQUEST, of))

    # The basis of a campaign

    def measured_with(self, campaign: str) -> dict[str, Aspect]:
        """Return what a campaign measures with, by aspect."""
        table = tables.measured_with
        query = select(table).where(table.c.campaign == campaign).order_by(table.c.aspect)
        return self._read(
            campaign,
            lambda connection: {
                row.aspect: record(Aspect, row) for row in connection.execute(query)
            },
        )

    def set_measured_with(self, campaign: str, aspects: Mapping[str, Aspect]) -> None:
        """Store these aspects, replacing earlier ones. Stores no event."""
        table = tables.measured_with

        def write(connection: Connection, _: Row[Any]) -> None:
            for name, aspect in aspects.items():
                this = (table.c.campaign == campaign) & (table.c.aspect == name)
                connection.execute(delete(table).where(this))
                row = values(table, aspect, campaign=campaign, aspect=name)
                connection.execute(insert(table).values(row))

        if aspects:
            self._change(campaign, write)

    def priors(self, campaign: str) -> list[Prior]:
        """Return the findings of earlier campaigns for this one, in their original order."""
        table = tables.prior
        query = select(table).where(table.c.campaign == campaign).order_by(table.c.number)
        return self._read(
            campaign, lambda connection: [record(Prior, row) for row in connection.execute(query)]
        )


def _in_use(connection: Connection, lease: Lease, campaign: str, later: Later) -> str:
    """Who holds a testbed, for what, and what to do. A campaign's testbed is also held to apply
    what it recommends or to roll that back.
    """
    application, state = tables.application.c, tables.campaign.c.state
    in_progress = connection.scalar(
        select(application.id)
        .where(application.campaign == lease.campaign, application.testbed == lease.testbed)
        .where(application.state.in_(UNFINISHED))
    )
    who = (
        f"process {lease.holder.pid} on {lease.holder.host}, last seen {lease.beat_age_s:.0f} s "
        f"ago; can be taken over after {lease.limit_s:.0f} s of silence"
    )
    now = connection.scalar(select(state).where(tables.campaign.c.id == lease.campaign))
    runs = in_progress is None and now in (CampaignState.CREATED, CampaignState.RUNNING)
    if runs and lease.campaign == campaign:
        return f"campaign {campaign} is being run by another process: {who}; {later.runs}"
    verifies = queries.verifications(connection, [lease.campaign])
    user = f"{'verification' if verifies else 'campaign'} {lease.campaign}"
    if in_progress is not None:
        user = f"application {in_progress} of {user}"
    return f"testbed {lease.testbed} is in use by {user}: {who}; {later.free}"
