"""The interface to the database: every change is stored together with its event, or not at all.

It stores records and their states; other modules decide what they mean and what to do next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from tuner.errors import ConflictError
from tuner.measure.covariates import covariates
from tuner.model import Block, BlockTimes, Event, Lease, Measurement, ReferenceRun, Trial
from tuner.states import BlockState, EventKind, TrialState
from tuner.store import block_queries, queries, statements, tables
from tuner.store.campaigns import CampaignStore
from tuner.store.rows import NewEvent, record, values
from tuner.time_use import TimeUse


class Store(CampaignStore):
    """All campaigns of one database. Safe for concurrent use by several threads and processes.

    Every method is one transaction, durable when the method returns. Each may raise StoreError;
    those that change something raise ConflictError when the change contradicts the stored data (a
    duplicate number, a second running block, an invalid change of state). NotFoundError: the
    campaign, trial or block does not exist. ``campaign`` is the complete identifier by default. NaN
    is a ValueError, as is infinity in a mapping; an infinite time is a ConflictError.
    """

    # Trials

    def add_trials(self, campaign: str, trials: Sequence[tuple[Trial, NewEvent]]) -> list[Event]:
        """Store new trials in their current state, all or none."""
        table = tables.trial

        def add(connection: Connection, _: Row[Any]) -> list[Event]:
            events = []
            for trial, event in trials:
                connection.execute(insert(table), values(table, trial, campaign=campaign))
                events.append(queries.add_event(connection, campaign, event))
            return events

        return self._change(campaign, add)

    def move_trial(
        self, campaign: str, number: int, state: TrialState, reason: str, event: NewEvent
    ) -> Event:
        """Change the state of a trial."""
        table = tables.trial
        this = (table.c.campaign == campaign) & (table.c.number == number)
        what = f"trial {number} of campaign {campaign}"

        def move(connection: Connection, _: Row[Any]) -> Event:
            queries.move(connection, table, this, what, state, reason=reason)
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, move)

    def trials(self, campaign: str) -> list[Trial]:
        """Return the trials of a campaign by number."""

        def read(connection: Connection) -> list[Trial]:
            rows = connection.execute(statements.TRIALS, {"of": campaign})
            return [record(Trial, row) for row in rows]

        return self._read(campaign, read)

    # Blocks

    def begin_block(
        self, campaign: str, block: Block, event: NewEvent, lease: Lease | None = None
    ) -> Event:
        """Store a new block: running, without measurements, the only running block of its slot and
        on its testbed.

        ``lease``: the lease of the caller; ConflictError when another process has taken over.
        """
        leases = [] if lease is None else [lease]
        (new,) = self.begin_blocks(campaign, [(block, event)], leases)
        return new

    def begin_blocks(
        self,
        campaign: str,
        blocks: Sequence[tuple[Block, NewEvent]],
        leases: Sequence[Lease] = (),
    ) -> list[Event]:
        """Store blocks that are measured at once, all or none; see ``begin_block``."""
        for block, _ in blocks:
            if block.state is not BlockState.RUNNING or block.measurements:
                raise ValueError(f"block {block.number} has already begun")

        def begin(connection: Connection, _: Row[Any]) -> list[Event]:
            for lease in leases:
                queries.check_lease(connection, lease)
            events = []
            for block, event in blocks:
                row = values(tables.block, block, campaign=campaign)
                connection.execute(insert(tables.block), row)
                events.append(queries.add_event(connection, campaign, event))
            return events

        return self._change(campaign, begin)

    def add_measurement(
        self, campaign: str, block_number: int, measurement: Measurement, event: NewEvent
    ) -> Event:
        """Store the measurement of one arm of a running block."""
        return self._store_measurement(campaign, block_number, measurement, event)

    def replace_measurement(
        self, campaign: str, block_number: int, measurement: Measurement, event: NewEvent
    ) -> Event:
        """Replace the measurement of an arm of a running block."""
        return self._store_measurement(campaign, block_number, measurement, event, replace=True)

    def _store_measurement(
        self,
        campaign: str,
        block_number: int,
        measurement: Measurement,
        event: NewEvent,
        *,
        replace: bool = False,
    ) -> Event:
        table = tables.measurement
        arm = {"campaign": campaign, "block": block_number, "trial": measurement.trial}
        components = [
            values(tables.component, result, component=name, client=client, **arm)
            for client, results in {
                block_queries.ALL: measurement.components,
                **measurement.clients,
            }.items()
            for name, result in results.items()
        ]
        beside = covariates(measurement.diagnostics)

        def add(connection: Connection, _: Row[Any]) -> Event:
            block = queries.running_block(connection, campaign, block_number)
            if measurement.trial not in block.order:
                what = queries.block_name(campaign, block_number)
                raise ConflictError(f"{what} has no arm for trial {measurement.trial}")
            if replace:
                for old in (tables.covariate, tables.component, table):
                    of = (old.c[name] == value for name, value in arm.items())
                    connection.execute(delete(old).where(*of))
            connection.execute(insert(table), values(table, measurement, **arm))
            if components:
                connection.execute(insert(tables.component), components)
            if beside:
                connection.execute(insert(tables.covariate), beside | arm)
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, add)

    def add_reference(
        self, campaign: str, block_number: int, run: ReferenceRun, event: NewEvent
    ) -> Event:
        """Store the run of a reference within a running block."""
        of = {"campaign": campaign, "block": block_number, "name": run.name}
        components = [
            values(tables.reference_component, result, component=name, **of)
            for name, result in run.components.items()
        ]

        def add(connection: Connection, _: Row[Any]) -> Event:
            queries.running_block(connection, campaign, block_number)
            connection.execute(insert(tables.reference), values(tables.reference, run, **of))
            if components:
                connection.execute(insert(tables.reference_component), components)
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, add)

    def end_block(
        self,
        campaign: str,
        block_number: int,
        state: BlockState,
        reason: str,
        duration_s: float,
        event: NewEvent,
        use: TimeUse | None = None,
    ) -> Event:
        """End a running block. ``use``: added to the campaign's time use."""

        def end(connection: Connection, row: Row[Any]) -> Event:
            if use is not None:
                queries.add_time_use(connection, row, use)
            queries.end_block(connection, campaign, block_number, state, reason, duration_s)
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, end)

    def void_running_blocks(self, campaign: str, reason: str, event: NewEvent) -> tuple[int, ...]:
        """Void the blocks that a killed process left running; return their numbers.

        The event is stored once for each block, with its number.
        """
        table = tables.block
        running = (table.c.campaign == campaign) & (table.c.state == BlockState.RUNNING)

        def void(connection: Connection, _: Row[Any]) -> tuple[int, ...]:
            numbers = tuple(connection.scalars(select(table.c.number).where(running)))
            for number in numbers:
                queries.end_block(connection, campaign, number, BlockState.VOID, reason, 0.0)
                of_block = replace(event, data={"block": number, **event.data})
                queries.add_event(connection, campaign, of_block)
            return numbers

        return self._change(campaign, void)

    def blocks(
        self,
        campaign: str,
        after: int = 0,
        most: int | None = None,
        *,
        trials: Collection[int] | None = None,
    ) -> list[Block]:
        """Return the first ``most`` blocks with numbers above ``after``, by number, with the
        measurements of all or these ``trials``; measurements and references are ordered by
        position.
        """
        return self._read(
            campaign,
            lambda connection: block_queries.blocks(connection, campaign, after, most, trials),
        )

    def block_times(
        self,
        campaign: str,
        components: Sequence[str],
        after: int = 0,
        most: int | None = None,
        *,
        with_covariates: bool = True,
    ) -> list[BlockTimes]:
        """Return the first ``most`` blocks with numbers above ``after``, by number, in the form
        that judging needs; times are in the order of ``components``. OtherComponentsError when
        others were measured. ``with_covariates``: read covariates too, which displays do not need.
        """

        def read(connection: Connection) -> list[BlockTimes]:
            return block_queries.block_times(
                connection, campaign, components, after, most, with_covariates=with_covariates
            )

        return self._read(campaign, read)

    # Events

    def add_event(self, campaign: str, event: NewEvent) -> Event:
        """Store an event that changes nothing else."""
        return self._change(
            campaign, lambda connection, _: queries.add_event(connection, campaign, event)
        )

    def ask_to_resume(self, campaign: str, event: NewEvent, before: datetime) -> Event:
        """Store a request to resume a campaign. ConflictError while the last event is such a
        request, not older than ``before``: its run is starting.
        """

        def ask(connection: Connection, _: Row[Any]) -> Event:
            table = tables.event
            of = select(table.c.kind, table.c.at).where(table.c.campaign == campaign)
            last = connection.execute(of.order_by(table.c.number.desc()).limit(1)).first()
            if last and last.kind == EventKind.RESUME_REQUESTED and last.at >= before:
                raise ConflictError(f"campaign {campaign} is already being resumed")
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, ask)

    def events(
        self,
        campaign: str,
        after: int = 0,
        limit: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[Event]:
        """Return the first ``limit`` events with numbers above ``after``, of all or these
        ``kinds``, in order.
        """
        table = tables.event
        query = (
            select(table)
            .where(table.c.campaign == campaign, table.c.number > after)
            .order_by(table.c.number)
            .limit(limit)
        )
        if kinds is not None:
            query = query.where(table.c.kind.in_(kinds))
        return self._read(
            campaign, lambda connection: [record(Event, row) for row in connection.execute(query)]
        )

    def measured_programs(self, campaign: str) -> str:
        """Return the measured programs and versions, as the newest run found them; "" before any
        run.
        """
        ready = self.events(campaign, kinds=[EventKind.TESTBED_READY])
        return str(ready[-1].data.get("identity", "")) if ready else ""
