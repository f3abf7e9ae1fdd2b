"""Databases of earlier revisions are migrated to the current tables, with all of their contents."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect, text

from tests.postgresql import Server
from tests.unit.store import records
from tests.unit.store.conftest import KINDS, Place
from tuner.apply.plan import plan_identity
from tuner.errors import StoreError
from tuner.states import ApplicationState, BlockState, CampaignState, TrialState
from tuner.store import Store, problems, schema, tables, upgrade
from tuner.store.applications import Applications
from tuner.store.opening import FILE
from tuner.time_use import TimeUse

MIGRATIONS = Path(schema.__file__).with_name("migrations")


@pytest.fixture(params=KINDS)
def empty(request: pytest.FixtureRequest, state_directory: Path) -> Place:
    """Return a place with a database without tables."""
    if request.param == "sqlite":
        return Place(state_directory)
    server: Server = request.getfixturevalue("postgresql")
    return Place(state_directory, server.url(server.new()))


@pytest.fixture
def first(empty: Place, root: Path, tmp_path: Path) -> Place:
    """Return a place with a database of the first release that has a finished campaign."""
    filled(empty, root, tmp_path, "0001")
    return empty


@pytest.fixture(params=["0001", "0002", "0004", "0007"])
def earlier(request: pytest.FixtureRequest, empty: Place, root: Path, tmp_path: Path) -> Place:
    """Return a place with a database of an earlier revision."""
    filled(empty, root, tmp_path, request.param)
    return empty


def filled(empty: Place, root: Path, tmp_path: Path, revision: str) -> None:
    dump = (root / "tests" / "data" / "databases" / f"revision-{revision}.sql").read_text()
    sqlite_file = tmp_path / "earlier.sqlite3"
    if empty.address is None:
        empty.state_directory.mkdir()
        sqlite_file = empty.state_directory / FILE
    with closing(sqlite3.connect(sqlite_file)) as raw:
        raw.executescript(dump)
        raw.execute("PRAGMA journal_mode = WAL")
    if empty.address is not None:
        # The same rows, in tables created by the migrations.
        with empty.raw() as connection:
            schema.migrate(connection, revision)
            copy_rows(create_engine(f"sqlite:///{sqlite_file}"), connection)
            if revision == "0001":  # it had no such table yet
                connection.execute(text("DROP TABLE alembic_version"))
            connection.commit()


def copy_rows(source: Engine, target: Connection) -> None:
    old, new = MetaData(), MetaData()
    old.reflect(source)
    new.reflect(target)
    with source.connect() as reading:
        for table in old.sorted_tables:
            rows = [dict(row._mapping) for row in reading.execute(table.select())]
            if table.name in ("schema_version", "alembic_version"):
                target.execute(text(f"DELETE FROM {table.name}"))
            if rows:
                target.execute(new.tables[table.name].insert(), rows)
    source.dispose()


def described(connection: Connection) -> dict[str, Any]:
    """Return everything that the database knows about each table, in a canonical order."""
    inspector = inspect(connection)
    ways = (
        inspector.get_columns,
        inspector.get_foreign_keys,
        inspector.get_unique_constraints,
        inspector.get_check_constraints,
        inspector.get_indexes,
    )
    return {
        name: [sorted(json.dumps(item, default=str) for item in way(name)) for way in ways]
        + [inspector.get_pk_constraint(name)]
        for name in inspector.get_table_names()
    }


@pytest.mark.slow
def test_a_migrated_database_equals_a_new_one(
    earlier: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    new = Place(tmp_path / "new")
    if earlier.address is not None:
        server: Server = request.getfixturevalue("postgresql")
        new = Place(tmp_path, server.url(server.new()))
    new.open().close()
    upgrade(earlier.state_directory, earlier.address)
    with earlier.raw() as migrated, new.raw() as created:
        assert described(migrated) == described(created)
        assert compare_metadata(MigrationContext.configure(migrated), tables.metadata) == []


def test_the_newest_revision_is_that_of_the_tables() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == tables.REVISION


def test_everything_is_kept(first: Place) -> None:
    done = upgrade(first.state_directory, first.address)
    assert (done.before, done.after) == ("0001", tables.REVISION)
    with first.open() as store:
        campaign = store.campaign("last")
        assert (campaign.name, campaign.seed) == ("first release", 2**64 - 1)
        assert campaign.state is CampaignState.FINISHED
        assert campaign.created == records.NOON
        assert campaign.baseline == records.BASELINE_CONFIGURATION
        assert campaign.time_use == TimeUse(20.0, 1.0, 2.0, 16.0)
        # The effects of settings were only in a note.
        assert campaign.recommendation == replace(records.recommendation(), settings={})
        (block,) = store.blocks(campaign.id)
        assert block.measurements == (records.measurement(1, 0), records.measurement(0, 1))
        assert (block.state, block.duration_s) == (BlockState.COMPLETE, 12.25)
        trials = [trial.state for trial in store.trials(campaign.id)]
        assert trials == [TrialState.RUNNING, TrialState.COMPLETE]
        assert [event.number for event in store.events(campaign.id)] == list(range(1, 13))
        assert problems(store) == []
        records.new_campaign(store)


@pytest.mark.parametrize("earlier", ["0002"], indirect=True)
def test_what_was_running_at_an_upgrade_is_kept(earlier: Place) -> None:
    upgrade(earlier.state_directory, earlier.address)
    with earlier.open() as store:
        identifiers = {c.name: c.id for c in store.campaigns()}
        (block, cut_off) = store.blocks(identifiers["second release"])
        assert block.references == (records.reference(),)
        assert set(block.measurements[0].clients) == {"client1", "client2"}
        (other,) = store.blocks(identifiers["another"])
        assert cut_off.state is other.state is BlockState.RUNNING
        assert problems(store) == []


@pytest.mark.parametrize("earlier", ["0004"], indirect=True)
def test_leases_survive_an_upgrade(earlier: Place) -> None:
    upgrade(earlier.state_directory, earlier.address)
    with earlier.open() as store:
        (lease,) = store.leases()
        assert (lease.testbed, store.campaign(lease.campaign).name) == ("hall 7", "fourth release")
        assert [b.testbed for b in store.blocks(lease.campaign)] == ["hall 7", "hall 7"]
        assert {(b.batch, b.slot) for b in store.blocks(lease.campaign)} == {(None, 0)}
        assert store.beat(lease)
        assert problems(store) == []


@pytest.mark.parametrize("earlier", ["0007"], indirect=True)
def test_applications_without_clients_are_kept(earlier: Place) -> None:
    """They can be rolled back, and a plan is not stale because of the upgrade."""
    upgrade(earlier.state_directory, earlier.address)
    with earlier.open() as store:
        planned, applied = Applications(store).all()
        states = (planned.state, applied.state)
        assert states == (ApplicationState.PLANNED, ApplicationState.APPLIED)
        assert Applications(store).in_force(testbed="fileserver dafs at 192.0.2.9") == [applied]
        assert (planned.clients, applied.clients) == ((), ())
        ends = (planned.before, planned.after)
        programs, clients = planned.programs, planned.clients
        assert planned.plan == plan_identity(planned.testbed, programs, *ends, False, clients)
        assert problems(store) == []


def test_an_old_database_is_refused_until_it_is_upgraded(first: Place) -> None:
    with pytest.raises(StoreError, match=r"of revision 0001, this fstune needs .*fstune db upgr"):
        first.open()
    upgrade(first.state_directory, first.address)
    again = upgrade(first.state_directory, first.address)
    assert (again.before, again.after, again.copy) == (tables.REVISION, tables.REVISION, None)
    first.open().close()


@pytest.mark.parametrize("empty", ["sqlite"], indirect=True)
def test_a_failed_upgrade_changes_nothing_and_leaves_no_copy(first: Place) -> None:
    with first.raw() as connection:
        connection.execute(text("CREATE TABLE covariate (number INTEGER)"))
        connection.commit()
    for _ in range(2):
        with pytest.raises(StoreError, match="covariate"):
            upgrade(first.state_directory, first.address)
    assert [file.name for file in first.state_directory.glob(f"{FILE}.0*")] == []
    with first.raw() as connection:
        connection.execute(text("DROP TABLE covariate"))
        connection.commit()
    done = upgrade(first.state_directory, first.address)
    assert done.before == "0001"
    assert done.copy is not None
    assert done.copy.exists()


def test_the_old_database_is_copied_first(first: Place) -> None:
    done = upgrade(first.state_directory, first.address)
    if first.address is not None:
        assert done.copy is None
        return
    assert done.copy is not None
    assert done.copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(done.copy)) as copy:
        assert copy.execute("SELECT version FROM schema_version").fetchall() == [(1,)]
        assert copy.execute("SELECT count(*) FROM measurement").fetchall() == [(2,)]


def test_a_migration_that_fails_changes_nothing(first: Place) -> None:
    with first.raw() as connection:
        connection.execute(text("CREATE TABLE mark (x INTEGER)"))
        connection.commit()
        before = described(connection)
    with pytest.raises(StoreError, match="mark"):
        upgrade(first.state_directory, first.address)
    with first.raw() as connection:
        assert described(connection) == before
        connection.execute(text("DROP TABLE mark"))
        connection.commit()
    upgrade(first.state_directory, first.address)
    with first.open() as store:
        assert len(store.blocks(store.campaign("last").id)) == 1


def test_tables_are_created_in_an_empty_database(empty: Place) -> None:
    done = upgrade(empty.state_directory, empty.address)
    assert (done.before, done.after, done.copy) == (None, tables.REVISION, None)
    empty.open().close()


def test_a_newer_database_is_left_alone(store: Store, place: Place) -> None:
    with place.raw() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))
        connection.commit()
    try:
        for use in (place.open, lambda: upgrade(place.state_directory, place.address)):
            with pytest.raises(StoreError, match=r"of revision 0999, this fstune supports .*newer"):
                use()
    finally:
        with place.raw() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num='{tables.REVISION}'"))
            connection.commit()


def test_another_program_s_database_is_left_alone(empty: Place) -> None:
    empty.state_directory.mkdir()
    with empty.raw() as connection:
        connection.execute(text("CREATE TABLE other (x INTEGER)"))
        connection.commit()
    for use in (empty.open, lambda: upgrade(empty.state_directory, empty.address)):
        with pytest.raises(StoreError, match="belongs to another program; use a separate"):
            use()
    with empty.raw() as connection:
        assert inspect(connection).get_table_names() == ["other"]
