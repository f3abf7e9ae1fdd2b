"""The one door to the database: what changes is written together with its event, or not at all.

It keeps records and their states; what they mean, and what is done next, is decided elsewhere.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Row, insert, inspect, select, update

from tuner import states
from tuner.errors import ConflictError, NotFoundError, StoreError
from tuner.model import (
    Block,
    Campaign,
    ComponentResult,
    Configuration,
    Event,
    Measurement,
    Recommendation,
    TimeUse,
    Trial,
)
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import queries, tables
from tuner.store.engine import open_sqlite, reported, writer
from tuner.store.rows import NewEvent, record, values

#: The name of the database in its state directory.
FILE = "fstune.sqlite3"

# Neither vowels nor what is taken for another letter: no words, no mistakes when typed.
_ID_LETTERS = "bcdfghjkmnpqrstvwxz23456789"


class Store:
    """All campaigns of one state directory. May be used by several threads and processes at once.

    Every method is one transaction, done for good when it returns. Each may raise StoreError; those
    that change something raise ConflictError when the change does not fit what is stored (a number
    given twice, a second running block, a state that cannot follow). A campaign, trial or block
    that does not exist is a NotFoundError. ``campaign`` is the whole identifier unless said
    otherwise. NaN is a ValueError, as is infinity in a mapping; an infinite time is a conflict.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        """Use the database of ``engine``, ``where`` in errors; make its tables if it is empty."""
        self._engine = engine
        self._where = where
        self._writer = writer(engine)
        self._prepare()

    @classmethod
    def open(cls, state_directory: Path) -> Store:
        """Open the database of this directory; make both when they are not there."""
        directory = state_directory.absolute()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{directory}: the state directory cannot be made ({error.strerror}); "
                "name another with FSTUNE_STATE_DIR"
            ) from error
        engine = open_sqlite(directory / FILE)
        try:
            return cls(engine, str(directory / FILE))
        except BaseException:
            engine.dispose()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Campaigns

    def create_campaign(self, name: str, spec: str, seed: int, at: datetime) -> Campaign:
        """Store a new campaign and its first event. ``spec``: JSON text; 0 <= ``seed`` < 2**64."""
        suffix = "".join(secrets.choice(_ID_LETTERS) for _ in range(4))
        campaign = Campaign(
            id=f"{at.astimezone(UTC):%Y%m%d-%H%M%S}-{suffix}",
            name=name,
            state=CampaignState.CREATED,
            spec=spec,
            seed=seed,
            created=at,
            updated=at,
        )
        event = NewEvent(at, "campaign-created", f"campaign {name} is created")
        table = tables.campaign
        with self._transaction(self._writer) as connection:
            row = values(table, campaign) | values(table, campaign.time_use)
            connection.execute(insert(table).values(row))
            queries.add_event(connection, campaign.id, event)
        return campaign

    def campaigns(self) -> list[Campaign]:
        """Return every campaign, newest first."""
        with self._transaction(self._engine) as connection:
            return queries.campaigns(connection)

    def campaign(self, reference: str) -> Campaign:
        """Return a campaign by its identifier, by how only this one begins, or the ``last`` one."""
        with self._transaction(self._engine) as connection:
            found = queries.resolve(connection, reference, self._where)
            return queries.campaigns(connection, tables.campaign.c.id == found)[0]

    def move_campaign(
        self, campaign: str, state: CampaignState, reason: str, event: NewEvent
    ) -> Event:
        """Bring a campaign into ``state``."""
        table = tables.campaign
        with self._change(campaign) as (connection, stored):
            states.move(f"campaign {campaign}", stored.state, state)
            connection.execute(
                update(table).where(table.c.id == campaign).values(state=state, reason=reason)
            )
            return queries.add_event(connection, campaign, event)

    def set_baseline(
        self, campaign: str, configuration: Configuration, event: NewEvent
    ) -> Event | None:
        """Store what was found on the testbed. The same again changes nothing and returns None."""
        table = tables.campaign
        with self._change(campaign) as (connection, stored):
            if stored.baseline == configuration:
                return None
            if stored.baseline is not None:
                raise ConflictError(f"campaign {campaign} was begun with another baseline")
            connection.execute(
                update(table).where(table.c.id == campaign).values(baseline=configuration)
            )
            return queries.add_event(connection, campaign, event)

    def add_time_use(self, campaign: str, use: TimeUse) -> None:
        """Add to where the campaign's time went. This is accounting: it makes no event."""
        table = tables.campaign
        with self._change(campaign) as (connection, stored):
            total = record(TimeUse, stored) + use
            connection.execute(
                update(table).where(table.c.id == campaign).values(values(table, total))
            )

    def save_recommendation(
        self, campaign: str, recommendation: Recommendation, event: NewEvent
    ) -> Event:
        """Store the answer of a campaign. It has one; its trial must be stored."""
        table = tables.recommendation
        effects = [
            values(tables.effect, effect, campaign=campaign, component=name)
            for name, effect in recommendation.components.items()
        ]
        with self._change(campaign) as (connection, _):
            connection.execute(
                insert(table).values(values(table, recommendation, campaign=campaign))
            )
            if effects:
                connection.execute(insert(tables.effect), effects)
            return queries.add_event(connection, campaign, event)

    # Trials

    def add_trial(self, campaign: str, trial: Trial, event: NewEvent) -> Event:
        """Store a new trial in the state that it has."""
        table = tables.trial
        with self._change(campaign) as (connection, _):
            connection.execute(insert(table).values(values(table, trial, campaign=campaign)))
            return queries.add_event(connection, campaign, event)

    def add_trials(self, campaign: str, trials: Sequence[tuple[Trial, NewEvent]]) -> list[Event]:
        """Store new trials, all or none: a race that lost half of them would not be the same."""
        table = tables.trial
        with self._change(campaign) as (connection, _):
            told = []
            for trial, event in trials:
                connection.execute(insert(table).values(values(table, trial, campaign=campaign)))
                told.append(queries.add_event(connection, campaign, event))
            return told

    def move_trial(
        self, campaign: str, number: int, state: TrialState, reason: str, event: NewEvent
    ) -> Event:
        """Bring a trial into ``state``."""
        table = tables.trial
        this = (table.c.campaign == campaign) & (table.c.number == number)
        what = f"trial {number} of campaign {campaign}"
        with self._change(campaign) as (connection, _):
            old = connection.scalar(select(table.c.state).where(this))
            if old is None:
                raise NotFoundError(f"there is no {what}")
            states.move(what, old, state)
            connection.execute(update(table).where(this).values(state=state, reason=reason))
            return queries.add_event(connection, campaign, event)

    def trials(self, campaign: str) -> list[Trial]:
        """Return the trials of a campaign by number."""
        table = tables.trial
        with self._reading(campaign) as connection:
            found = connection.execute(
                select(table).where(table.c.campaign == campaign).order_by(table.c.number)
            )
            return [record(Trial, row) for row in found]

    # Blocks

    def begin_block(self, campaign: str, block: Block, event: NewEvent) -> Event:
        """Store a new block: running, not measured yet, the only running one of its campaign."""
        if block.state is not BlockState.RUNNING or block.measurements:
            raise ValueError(f"block {block.number} is not at its beginning")
        table = tables.block
        with self._change(campaign) as (connection, _):
            connection.execute(insert(table).values(values(table, block, campaign=campaign)))
            return queries.add_event(connection, campaign, event)

    def add_measurement(
        self, campaign: str, block_number: int, measurement: Measurement, event: NewEvent
    ) -> Event:
        """Store the measurement of one arm of a running block."""
        table = tables.measurement
        what = queries.block_name(campaign, block_number)
        arm = {"campaign": campaign, "block": block_number, "trial": measurement.trial}
        components = [
            values(tables.component, result, component=name, **arm)
            for name, result in measurement.components.items()
        ]
        with self._change(campaign) as (connection, _):
            block = queries.block_row(connection, campaign, block_number)
            if block.state is not BlockState.RUNNING:
                raise ConflictError(f"{what} is {block.state}; it takes no more measurements")
            if measurement.trial not in block.order:
                raise ConflictError(f"{what} has no arm for trial {measurement.trial}")
            connection.execute(insert(table).values(values(table, measurement, **arm)))
            if components:
                connection.execute(insert(tables.component), components)
            return queries.add_event(connection, campaign, event)

    def end_block(
        self,
        campaign: str,
        block_number: int,
        state: BlockState,
        reason: str,
        duration_s: float,
        event: NewEvent,
    ) -> Event:
        """Bring a running block to its end."""
        with self._change(campaign) as (connection, _):
            old = queries.block_row(connection, campaign, block_number).state
            states.move(queries.block_name(campaign, block_number), old, state)
            queries.end_block(connection, campaign, block_number, state, reason, duration_s)
            return queries.add_event(connection, campaign, event)

    def void_running_blocks(self, campaign: str, reason: str, event: NewEvent) -> tuple[int, ...]:
        """Void what a killed process left running; return the numbers, at most one.

        The event is stored when there was one to void.
        """
        table = tables.block
        running = (table.c.campaign == campaign) & (table.c.state == BlockState.RUNNING)
        with self._change(campaign) as (connection, _):
            numbers = tuple(connection.scalars(select(table.c.number).where(running)))
            for number in numbers:
                queries.end_block(connection, campaign, number, BlockState.VOID, reason, 0.0)
                queries.add_event(connection, campaign, event)
            return numbers

    def blocks(self, campaign: str, after: int = 0) -> list[Block]:
        """Return the blocks with numbers above ``after``, by number; measurements by position."""
        block, measurement, component = tables.block, tables.measurement, tables.component
        components: dict[tuple[int, int], dict[str, ComponentResult]] = defaultdict(dict)
        measurements: dict[int, list[Measurement]] = defaultdict(list)
        with self._reading(campaign) as connection:
            for row in connection.execute(
                select(component)
                .where(component.c.campaign == campaign, component.c.block > after)
                .order_by(component.c.component)
            ):
                components[row.block, row.trial][row.component] = record(ComponentResult, row)
            for row in connection.execute(
                select(measurement)
                .where(measurement.c.campaign == campaign, measurement.c.block > after)
                .order_by(measurement.c.position)
            ):
                results = components.get((row.block, row.trial), {})
                measurements[row.block].append(record(Measurement, row, components=results))
            found = connection.execute(
                select(block)
                .where(block.c.campaign == campaign, block.c.number > after)
                .order_by(block.c.number)
            )
            return [
                record(Block, row, measurements=tuple(measurements.get(row.number, ())))
                for row in found
            ]

    # Events

    def add_event(self, campaign: str, event: NewEvent) -> Event:
        """Store an event that changes nothing else."""
        with self._change(campaign) as (connection, _):
            return queries.add_event(connection, campaign, event)

    def events(self, campaign: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the first ``limit`` events with numbers above ``after``, in order."""
        table = tables.event
        with self._reading(campaign) as connection:
            found = connection.execute(
                select(table)
                .where(table.c.campaign == campaign, table.c.number > after)
                .order_by(table.c.number)
                .limit(limit)
            )
            return [record(Event, row) for row in found]

    def measured(self, campaign: str) -> str:
        """The programs and versions that were measured, as the newest run found them; "" before."""
        ready = [e for e in self.events(campaign) if e.kind == "testbed-ready"]
        return str(ready[-1].data.get("identity", "")) if ready else ""

    # Transactions

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        with reported(self._where), engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self, campaign: str) -> Iterator[Connection]:
        with self._transaction(self._engine) as connection:
            queries.campaign_row(connection, campaign)
            yield connection

    @contextmanager
    def _change(self, campaign: str) -> Iterator[tuple[Connection, Row[Any]]]:
        """Change one campaign, alone: its row is locked until the end."""
        with self._transaction(self._writer) as connection:
            yield connection, queries.campaign_row(connection, campaign, lock=True)

    def _prepare(self) -> None:
        version = tables.schema_version
        if not self._has_tables(self._engine):
            with self._transaction(self._writer) as connection:
                # Another process may have been faster.
                if not inspect(connection).get_table_names():
                    tables.metadata.create_all(connection)
                    connection.execute(insert(version).values(id=1, version=tables.SCHEMA_VERSION))
        with self._transaction(self._engine) as connection:
            if not inspect(connection).has_table(version.name):
                raise StoreError(
                    f"{self._where} belongs to another program; use another state directory"
                )
            found = connection.scalar(select(version.c.version))
        if found != tables.SCHEMA_VERSION:
            raise StoreError(
                f"{self._where} has schema version {found}, this fstune has "
                f"{tables.SCHEMA_VERSION}; use the fstune that wrote it or another state directory"
            )

    def _has_tables(self, engine: Engine) -> bool:
        with self._transaction(engine) as connection:
            return bool(inspect(connection).get_table_names())
