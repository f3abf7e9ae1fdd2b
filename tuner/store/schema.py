"""The tables of a database: created when it is empty, refused or migrated when they differ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from tuner.errors import ConflictError, StoreError
from tuner.model import Holder
from tuner.store import tables
from tuner.store.database import Database
from tuner.store.sqlite import SQLite

#: Alembic's own table, defined as Alembic does.
_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_FIRST = "0001"
#: The table of leases, and the columns that it has in all revisions.
_LEASE = "lease"
_LEASE_COLUMNS = ("campaign", "host", "machine", "pid", "start_ticks", "beat", "limit_s")


#: By name of the dialect, and of its driver.
_creations: dict[tuple[str, str], tuple[str, ...]] = {}


def prepare(database: Database) -> None:
    """Create the tables of an empty database. Raises StoreError when its tables are not the current
    ones.
    """
    revision = database.read(lambda connection: _revision(database, connection))
    if revision is None:
        with database.changing_tables() as connection:
            # Another process may have created them in the meantime.
            revision = _revision(database, connection)
            if revision is None:
                revision = _make(connection)
    if revision < tables.REVISION:
        raise StoreError(
            f"{database.where} has tables of revision {revision}, this fstune needs "
            f"{tables.REVISION}; run 'fstune db upgrade'"
        )
    _refuse_newer(database, revision)


def upgrade(
    database: Database, is_gone: Callable[[Holder], bool] = lambda holder: False
) -> tuple[str | None, Path | None]:
    """Migrate the tables to the current revision, in one transaction.

    Returns the previous revision (None: the database was empty) and the file with a copy of the
    database, if one was made: an SQLite database is copied first. Nobody else may use the database
    meanwhile. Raises ConflictError, and changes nothing, when a process that runs a campaign gave a
    heartbeat recently, unless ``is_gone`` reports that it has ended.
    """
    copy = None
    try:
        with database.changing_tables() as connection:
            revision = _revision(database, connection)
            if revision is None:
                _make(connection)
                return None, None
            _refuse_newer(database, revision)
            if revision == tables.REVISION:
                return revision, None
            _refuse_running(database, connection, is_gone)
            if isinstance(database, SQLite):
                name = f"{database.path.name}.{revision}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
                place = database.path.with_name(name)
                database.backup(place)
                copy = place
            migrate(connection)
    except Exception:  # not when interrupted: perhaps all has been committed
        if copy is not None:
            copy.unlink(missing_ok=True)  # each further attempt makes its own
        raise
    return revision, copy


def _refuse_running(
    database: Database, connection: Connection, is_gone: Callable[[Holder], bool]
) -> None:
    if _LEASE not in inspect(connection).get_table_names():
        return  # of the first release, which had no leases
    now = database.moment(connection)
    for row in connection.execute(text(f"SELECT {', '.join(_LEASE_COLUMNS)} FROM {_LEASE}")):
        beat = row.beat if isinstance(row.beat, datetime) else datetime.fromisoformat(row.beat)
        beat = beat.replace(tzinfo=UTC) if beat.tzinfo is None else beat
        holder = Holder(row.host, row.machine, row.pid, row.start_ticks)
        if (now - beat).total_seconds() <= row.limit_s and not is_gone(holder):
            raise ConflictError(
                f"{database.where}: campaign {row.campaign} is running (process {row.pid} on "
                f"{row.host}); pause it or wait until it ends, then upgrade"
            )


def has_tables(connection: Connection) -> bool:
    """Whether a database has any tables."""
    return bool(inspect(connection).get_table_names())


def migrate(connection: Connection, revision: str = "head") -> None:
    """Run the migrations from the existing tables, or from an empty database, to a revision."""
    # Imported here: importing it takes longer than most commands run.
    from alembic import command
    from alembic.config import Config

    names = inspect(connection).get_table_names()
    if names and _version.name not in names:
        _version.create(connection)
        connection.execute(insert(_version).values(version_num=_FIRST))
    config = Config()
    scripts = Path(__file__).with_name("migrations")
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _make(connection: Connection) -> str:
    for statement in creation(connection.dialect):
        connection.exec_driver_sql(statement)
    connection.execute(insert(_version).values(version_num=tables.REVISION))
    return tables.REVISION


def creation(dialect: Dialect) -> tuple[str, ...]:
    """The statements that create all tables in a dialect, those of ``MetaData.create_all``, which
    compiles them anew for every database.
    """
    key = dialect.name, dialect.driver
    if key not in _creations:
        _creations[key] = _compiled(dialect)
    return _creations[key]


def _compiled(dialect: Dialect) -> tuple[str, ...]:
    statements = []
    for table in (*tables.metadata.sorted_tables, _version):
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        statements += (str(CreateIndex(i).compile(dialect=dialect)) for i in _indexes(table))
    return tuple(statements)


def _indexes(table: Table) -> list[Index]:
    return sorted(table.indexes, key=lambda index: str(index.name))


def _revision(database: Database, connection: Connection) -> str | None:
    """Return the revision of the existing tables, None if there are none."""
    names = set(inspect(connection).get_table_names())
    if not names:
        return None
    if tables.campaign.name in names:
        if _version.name in names:
            revision = connection.scalar(select(_version.c.version_num))
            if revision is not None:
                return str(revision)
        # The first release stored its version in a table of its own.
        elif "schema_version" in names and (
            connection.scalar(text("SELECT version FROM schema_version")) == 1
        ):
            return _FIRST
    raise StoreError(f"{database.where} belongs to another program; use a separate database")


def _refuse_newer(database: Database, revision: str) -> None:
    if revision > tables.REVISION:
        raise StoreError(
            f"{database.where} has tables of revision {revision}, this fstune supports up to "
            f"{tables.REVISION}; use the version that wrote it, or a newer one"
        )
