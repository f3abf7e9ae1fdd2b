"""The tables of the queue: those of Procrastinate and one of ours, in a schema of their own.

They are created when first needed, and upgraded together with all other tables. The names of the
migrations that were run are recorded, so that those of a newer Procrastinate are run once each.
Procrastinate itself is not imported: its SQL is read from its installed files.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection, text

from tuner.errors import StoreError
from tuner.store.database import Database

SCHEMA = "fstune_queue"
#: Our own migrations, run after all of Procrastinate's.
_OURS = {
    "fstune_01_worker": f"""
CREATE TABLE {SCHEMA}.worker (
    id bigint PRIMARY KEY REFERENCES {SCHEMA}.procrastinate_workers (id) ON DELETE CASCADE,
    host text NOT NULL,
    machine text NOT NULL,
    pid integer NOT NULL,
    start_ticks bigint NOT NULL,
    queues text[] NOT NULL,
    concurrency integer NOT NULL,
    started timestamp with time zone NOT NULL DEFAULT now(),
    limit_s double precision NOT NULL
)
"""
}
_APPLIED = f"CREATE TABLE {SCHEMA}.applied (name text PRIMARY KEY)"


def here(connection: Connection) -> bool:
    """Whether a database has a queue."""
    # Queries the rows of the catalogue: looking a table up by name uses the session's cache, which
    # may be out of date.
    query = "SELECT EXISTS (SELECT FROM pg_tables WHERE (schemaname, tablename) = (:s, 'applied'))"
    return bool(connection.scalar(text(query), {"s": SCHEMA}))


def look_there_first(connection: Connection) -> None:
    """Put the schema of the queue first in the search path of this transaction."""
    path = "set_config('search_path', :schema || ', ' || current_setting('search_path'), true)"
    connection.execute(text(f"SELECT {path}"), {"schema": SCHEMA})


def prepare(database: Database) -> None:
    """Create the queue if there is none. StoreError when it is one of another version of fstune."""
    if database.read(here):
        if database.read(_missing):
            raise StoreError(
                f"{database.where} has a queue of an older fstune; run 'fstune db upgrade'"
            )
        return
    with database.changing_tables() as connection:
        if not here(connection):  # another process may have created it
            _make(connection)


def upgrade(database: Database) -> bool:
    """Create the queue or upgrade it; return whether there was anything to do.

    Each migration has a transaction of its own: a value that one adds to an enumeration can only be
    used by the next one.
    """
    with database.changing_tables() as connection:
        if not here(connection):
            _make(connection)
            return True
    changed = False
    for _ in range(len(_sources())):
        with database.changing_tables() as connection:
            missing = _missing(connection)
            if not missing:
                break
            name = missing[0]
            look_there_first(connection)
            _run(connection, _sources()[name])
            _note(connection, name)
            changed = True
    return changed


def _make(connection: Connection) -> None:
    connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    connection.execute(text(_APPLIED))
    look_there_first(connection)
    _run(connection, (_procrastinate() / "schema.sql").read_text("utf-8"))
    for statement in _OURS.values():
        _run(connection, statement)
    _note(connection, *_sources())


def _missing(connection: Connection) -> list[str]:
    """Return the migrations that were not run yet, in order. StoreError: unknown ones were run."""
    applied = set(connection.scalars(text(f"SELECT name FROM {SCHEMA}.applied")))
    sources = _sources()
    if applied - sources.keys():
        raise StoreError("the queue is from a newer fstune; use that version or a newer one")
    return [name for name in sources if name not in applied]


def _sources() -> dict[str, str]:
    """Return the SQL of every migration by name, in order."""
    files = sorted((_procrastinate() / "migrations").glob("*.sql"))
    return {file.stem: file.read_text("utf-8") for file in files} | _OURS


def _procrastinate() -> Path:
    spec = find_spec("procrastinate")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("sql")


def _run(connection: Connection, statements: str) -> None:
    # Several statements in one string; percent signs in them are not the driver's placeholders.
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


def _note(connection: Connection, *names: str) -> None:
    new = text(f"INSERT INTO {SCHEMA}.applied (name) VALUES (:name)")
    connection.execute(new, [{"name": name} for name in names])
