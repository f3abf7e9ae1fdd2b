"""Paged reading of a database, for display.

Every query uses a key, and nothing large is read as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Select, Table, exists, func, select, tuple_

from tuner.model import (
    BASELINE,
    Block,
    BlockCount,
    Campaign,
    Event,
    Measurement,
    Recommendation,
    Trial,
)
from tuner.states import EventKind
from tuner.store import block_queries, queries, tables
from tuner.store.rows import record
from tuner.store.store import Store

Result = TypeVar("Result")

_BLOCKS_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block without its measurements. ``measured``: the trials measured in it, in order."""

    block: Block
    measured: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of some blocks of a campaign. ``newest_block``: the highest number of all blocks."""

    newest_block: int
    blocks: int
    measurements: int
    seconds: float


class Pages:
    """Pages of one store. Every method reads one consistent snapshot of the database; StoreError.

    ``campaign`` is a complete identifier; for one that does not exist the result is empty.
    ``limit``: the maximum number of items.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # Both share the one open database of the store.
        self._database = store._database

    def check_ready(self) -> None:
        """Raise StoreError unless the database answers and is still where it was opened."""
        self.counts()
        self._database.check_place()

    def campaigns(self, limit: int, before: tuple[datetime, str] | None = None) -> list[Campaign]:
        """Return campaigns, newest first, older than ``before`` (time of creation, identifier)."""
        table = tables.campaign
        query = select(table.c.id).order_by(table.c.created.desc(), table.c.id.desc()).limit(limit)
        if before is not None:
            at, identifier = before
            same = (table.c.created == at) & (table.c.id < identifier)
            query = query.where((table.c.created < at) | same)
        return self._campaigns(query)

    def with_answer(self, limit: int) -> list[Campaign]:
        """Return the newest campaigns that have an answer, without verifications."""
        table, answer = tables.campaign, tables.recommendation
        query = (
            select(table.c.id)
            .join(answer, answer.c.campaign == table.c.id)
            .where(~answer.c.reason.startswith(Recommendation.VERIFICATION))
            .order_by(table.c.created.desc(), table.c.id.desc())
            .limit(limit)
        )
        return self._campaigns(query)

    def _campaigns(self, identifiers: Select[tuple[str]]) -> list[Campaign]:
        """Return the campaigns that a query selects."""

        def read(connection: Connection) -> list[Campaign]:
            names = connection.scalars(identifiers).all()
            return queries.campaigns(connection, tables.campaign.c.id.in_(names)) if names else []

        return self._read(read)

    def counts(self) -> dict[str, int]:
        """Return the number of campaigns by state, without states that no campaign is in."""
        table = tables.campaign
        query = select(table.c.state, func.count()).group_by(table.c.state)
        return self._read(lambda c: {str(state): n for state, n in c.execute(query)})

    def trials(self, campaign: str, after: int, limit: int) -> list[Trial]:
        """Return the trials with numbers above ``after``."""
        table = tables.trial
        query = (
            select(table)
            .where(table.c.campaign == campaign, table.c.number > after)
            .order_by(table.c.number)
            .limit(limit)
        )
        return self._read(lambda c: [record(Trial, row) for row in c.execute(query)])

    def blocks(self, campaign: str, after: int, limit: int) -> list[BlockRow]:
        """Return the blocks with numbers above ``after``."""
        table, measurement = tables.block, tables.measurement
        query = (
            select(table)
            .where(table.c.campaign == campaign, table.c.number > after)
            .order_by(table.c.number)
            .limit(limit)
        )

        def read(connection: Connection) -> list[BlockRow]:
            rows = connection.execute(query).all()
            arms: dict[int, list[int]] = defaultdict(list)
            of = select(measurement.c.block, measurement.c.trial).where(
                measurement.c.campaign == campaign,
                measurement.c.block.in_([row.number for row in rows]),
            )
            for block, trial in connection.execute(of.order_by(measurement.c.position)):
                arms[block].append(trial)
            return [
                BlockRow(
                    record(Block, row, measurements=(), references=()),
                    tuple(arms.get(row.number, ())),
                )
                for row in rows
            ]

        return self._read(read)

    def whole_blocks(self, campaign: str, trials: Collection[int] | None = None) -> Iterator[Block]:
        """Yield the blocks by number, with the measurements of all or these ``trials``. Only some
        blocks are in memory at a time; each piece is a snapshot of its own.
        """
        after, more = 0, True
        while more:
            piece = self._store.blocks(campaign, after, _BLOCKS_AT_ONCE, trials=trials)
            yield from piece
            after, more = after + _BLOCKS_AT_ONCE, len(piece) == _BLOCKS_AT_ONCE

    def measurements(
        self, campaign: str, after: tuple[int, int], limit: int
    ) -> list[tuple[int, Measurement]]:
        """Return the measurements after a place (block, position), each with the number of its
        block.
        """
        table, component = tables.measurement, tables.component
        query = (
            select(table)
            .where(
                table.c.campaign == campaign,
                tuple_(table.c.block, table.c.position) > tuple_(*after),
            )
            .order_by(table.c.block, table.c.position)
            .limit(limit)
        )

        def read(connection: Connection) -> list[tuple[int, Measurement]]:
            rows = connection.execute(query).all()
            if not rows:
                return []
            these = (component.c.campaign == campaign) & component.c.block.between(
                rows[0].block, rows[-1].block
            )
            return list(block_queries.with_components(connection, rows, these))

        return self._read(read)

    def has_references(self, campaign: str) -> bool:
        """Whether any reference was measured."""
        table = tables.reference
        query = select(table.c.name).where(table.c.campaign == campaign).limit(1)
        return self._read(lambda connection: connection.scalar(query) is not None)

    def newest_event(self, campaign: str) -> int:
        """Return the number of the newest event, 0 when there is none."""
        return self._newest(tables.event, campaign)

    def newest_block(self, campaign: str) -> int:
        """Return the number of the newest block, 0 when there is none."""
        return self._newest(tables.block, campaign)

    def _newest(self, table: Table, campaign: str) -> int:
        query = select(func.max(table.c.number)).where(table.c.campaign == campaign)
        return self._read(lambda connection: connection.scalar(query) or 0)

    def events(
        self,
        campaign: str,
        after: int,
        *,
        kinds: Collection[str] = (),
        without: Collection[str] = (),
        last: int | None = None,
    ) -> list[Event]:
        """Return the events with numbers above ``after``, in order, of these ``kinds`` if there are
        any, without the kinds ``without``. ``last``: only that many of the newest ones.
        """
        table = tables.event
        query = select(table).where(table.c.campaign == campaign, table.c.number > after)
        if kinds:
            query = query.where(table.c.kind.in_(kinds))
        if without:
            query = query.where(table.c.kind.not_in(without))
        query = query.order_by(table.c.number.desc()).limit(last)
        return self._read(lambda c: [record(Event, row) for row in c.execute(query)][::-1])

    def block_complete_before(self, campaign: str, number: int) -> Event | None:
        """Return the newest event of a complete block with a number below ``number``."""
        table = tables.event
        query = (
            select(table)
            .where(
                table.c.campaign == campaign,
                table.c.kind == EventKind.BLOCK_COMPLETE,
                table.c.number < number,
            )
            .order_by(table.c.number.desc())
            .limit(1)
        )

        def read(connection: Connection) -> Event | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else record(Event, row)

        return self._read(read)

    def totals(self, campaign: str, after: int = 0) -> Totals:
        """Return the totals of the blocks with numbers above ``after``."""
        table, measurement = tables.block, tables.measurement
        newest = select(func.max(table.c.number)).where(table.c.campaign == campaign)
        blocks = select(func.count(), func.coalesce(func.sum(table.c.duration_s), 0.0)).where(
            table.c.campaign == campaign, table.c.number > after
        )
        arms = select(func.count()).where(
            measurement.c.campaign == campaign, measurement.c.block > after
        )

        def read(connection: Connection) -> Totals:
            count, seconds = connection.execute(blocks).one()
            last, number = connection.scalar(newest), connection.scalar(arms)
            return Totals(last or 0, count, number or 0, seconds)

        return self._read(read)

    def last_block_of(self, campaign: str, trial: int) -> int:
        """Return the number of the newest block that measured a trial; 0 if none did."""
        of = tables.measurement.c
        newest = select(func.max(of.block)).where(of.campaign == campaign, of.trial == trial)
        return self._read(lambda connection: connection.scalar(newest)) or 0

    def block_counts(self, campaign: str) -> list[BlockCount]:
        """Return the number of blocks by kind, state and testbed."""
        table, measurement = tables.block, tables.measurement
        arms = (
            select(measurement.c.block, func.count().label("arms"))
            .where(measurement.c.campaign == campaign)
            .group_by(measurement.c.block)
            .subquery()
        )
        at_once = table.c.batch.is_not(None)
        alike = (table.c.kind, table.c.state, table.c.testbed, at_once)
        query = (
            select(*alike, func.count(), func.coalesce(func.sum(arms.c.arms), 0))
            .join(arms, arms.c.block == table.c.number, isouter=True)
            .where(table.c.campaign == campaign)
            .group_by(*alike)
            .order_by(*alike)
        )
        return self._read(
            lambda c: [
                BlockCount(kind, state, testbed, bool(together), count, int(arms))
                for kind, state, testbed, together, count, arms in c.execute(query)
            ]
        )

    def baseline_started(self, campaign: str, after: int = 0) -> dict[int, datetime]:
        """Return when the baseline was measured in each block with a number above ``after``."""
        table = tables.measurement
        query = select(table.c.block, table.c.started).where(
            table.c.campaign == campaign, table.c.trial == BASELINE, table.c.block > after
        )
        return self._read(lambda c: {row.block: row.started for row in c.execute(query)})

    def testbed_findings(self, campaigns: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return what the newest run of each campaign found on its testbed: ``identity`` (programs
        and versions), ``facts`` (the limits of its hosts), and ``hosts`` (what they are). "" for
        what earlier releases did not store.
        """
        table = tables.event
        query = (
            select(table.c.campaign, table.c.data)
            .where(table.c.campaign.in_(campaigns), table.c.kind == EventKind.TESTBED_READY)
            .order_by(table.c.campaign, table.c.number)
        )
        return self._read(
            lambda c: {
                of: {key: str(data.get(key, "")) for key in ("identity", "facts", "hosts")}
                for of, data in c.execute(query)
            }
        )

    def events_of(self, campaigns: Sequence[str], kinds: Collection[str]) -> dict[str, list[Event]]:
        """Return the events of these kinds by campaign, in order, without campaigns that have
        none.
        """
        table = tables.event
        query = (
            select(table)
            .where(table.c.campaign.in_(campaigns), table.c.kind.in_(kinds))
            .order_by(table.c.campaign, table.c.number)
        )

        def read(connection: Connection) -> dict[str, list[Event]]:
            events: dict[str, list[Event]] = defaultdict(list)
            for row in connection.execute(query):
                events[row.campaign].append(record(Event, row))
            return dict(events)

        return self._read(read)

    def later_on_same_testbed(self, campaigns: Sequence[Campaign]) -> dict[str, Campaign]:
        """Return the newest later campaign that ran on the same testbed, for each of these, by
        identifier; those without one are missing.
        """
        if not campaigns:
            return {}
        table, aspect, event = tables.campaign, tables.measured_with, tables.event
        testbed = aspect.c.aspect == "testbed"
        of = select(aspect.c.campaign, aspect.c.digest).where(
            aspect.c.campaign.in_([campaign.id for campaign in campaigns]), testbed
        )
        ready = exists().where(
            event.c.campaign == table.c.id, event.c.kind == EventKind.TESTBED_READY
        )

        def read(connection: Connection) -> dict[str, Campaign]:
            digests: dict[str, str] = {row.campaign: row.digest for row in connection.execute(of)}
            # Only the newest campaign of a testbed can be the newest later one of another there.
            query = (
                select(aspect.c.digest, table.c.id)
                .join(table, aspect.c.campaign == table.c.id)
                .where(
                    testbed,
                    aspect.c.digest.in_(set(digests.values())),
                    table.c.created > min(campaign.created for campaign in campaigns),
                    ready,
                )
                .order_by(table.c.created)
            )
            newest: dict[str, str] = {row.digest: row.id for row in connection.execute(query)}
            rows = queries.campaigns(connection, table.c.id.in_(newest.values()))
            by_id = {row.id: row for row in rows}
            later = {}
            for campaign in campaigns:
                last = by_id.get(newest.get(digests.get(campaign.id, ""), ""))
                if last is not None and last.created > campaign.created:
                    later[campaign.id] = last
            return later

        return self._read(read)

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        return self._database.read(work)
