"""What is particular to the database in use: opening it, its transactions and its failures.

All that is known of SQLite is known here.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from tuner.errors import ConflictError, StoreError

#: How long one process waits for another's transaction. Those take milliseconds; a disk may stall.
BUSY_TIMEOUT_S = 30.0
_BUSY_PAUSE_S = 0.02

_WRITES = "fstune_writes"

_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked; end that one and try again",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked; end that one and try again",
    sqlite3.SQLITE_FULL: "its disk is full; make room and resume",
    sqlite3.SQLITE_READONLY: "it may not be written; use the account that owns it",
    sqlite3.SQLITE_PERM: "it may not be read; use the account that owns it",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its directory and your rights to it",
    sqlite3.SQLITE_IOERR: "its disk fails; check the disk and the system log",
    sqlite3.SQLITE_NOTADB: "it is not a database; move it away or use another state directory",
    sqlite3.SQLITE_CORRUPT: "it is damaged; put back a copy or use another state directory",
}


def open_sqlite(path: Path) -> Engine:
    """Return the engine for the file ``path``, which is made when first used.

    Write-ahead log: readers never wait for the writer. synchronous=FULL: the end of a transaction
    waits for the disk. A kill of the process would be survived without it, but what is tuned here
    can take the whole machine down, and a transaction every few seconds costs nothing.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # The module's own way of beginning transactions takes the write lock too late.
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        json_serializer=json_text,
        poolclass=QueuePool,
        max_overflow=-1,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        journal = _journal_mode(connection)
        if journal != "wal":
            raise StoreError(
                f"{path}: its filesystem has no shared memory for a write-ahead log; "
                "use a state directory on a local disk"
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its lock at once: what it reads then still holds when it writes.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _journal_mode(connection: sqlite3.Connection) -> str:
    """Make it a write-ahead log; returns what it is then."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            if journal != "wal":
                (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(journal)
        except sqlite3.OperationalError as error:
            # SQLite does not wait by itself while another process makes the same change.
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
        time.sleep(_BUSY_PAUSE_S)


def writer(engine: Engine) -> Engine:
    """Return the same engine for transactions that write."""
    return engine.execution_options(**{_WRITES: True})


#: JSON as stored; any mapping or configuration goes in as a dictionary. What is no number in JSON
#: is a ValueError: other readers could not take it.
json_text = partial(json.dumps, allow_nan=False, separators=(",", ":"), default=dict)


@contextmanager
def reported(where: str) -> Iterator[None]:
    """Turn the database's exceptions into ours, naming ``where`` the database is.

    ConflictError: what was to be written contradicts what is there. StoreError: everything else.
    A value that no column takes is the caller's mistake and stays the exception that it is.
    """
    try:
        yield
    except IntegrityError as error:
        raise ConflictError(f"{where} does not accept the change: {error.orig}") from error
    except DBAPIError as error:
        raise StoreError(f"{where}: {_advice(error.orig)} ({error.orig})") from error
    except StatementError as error:
        raise (error.orig or error) from error


def _advice(error: Any) -> str:
    # The low byte is the kind of failure, the rest its particulars.
    code = getattr(error, "sqlite_errorcode", None)
    return _ADVICE.get(code & 0xFF, "it fails") if code is not None else "it fails"
