"""SQLite databases: opening a file, locks, failures and backups."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from tuner.errors import ConflictError, StoreError
from tuner.new_file import others_can_change, put_new
from tuner.store import database
from tuner.store.database import Database, json_text

_BUSY_PAUSE_S = 0.02
_WRITES = "fstune_writes"

_ADVICE = {
    sqlite3.SQLITE_BUSY: "locked by another process; end that process and try again",
    sqlite3.SQLITE_LOCKED: "locked by another process; end that process and try again",
    sqlite3.SQLITE_FULL: (
        "its disk is full; make room and try again; 'fstune resume' continues a campaign"
    ),
    sqlite3.SQLITE_READONLY: "no permission to write it; use the account that owns it",
    sqlite3.SQLITE_PERM: "no permission to read it; use the account that owns it",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its directory and your rights to it",
    sqlite3.SQLITE_IOERR: "disk error or full disk; check the disk and the system log",
    sqlite3.SQLITE_NOTADB: "it is not a database; move it away or use another state directory",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore a copy or use another state directory",
}
_AWAY = (
    "the file was moved, deleted or replaced while it was in use; end all processes that use it, "
    "put the right file there and start them again"
)
#: Their cause may be the directory: readers write beside the file, too.
_CANNOT_WRITE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class SQLite(Database):
    """A database in one file, which is created when first used."""

    absence = "is locked by another process"

    def __init__(self, path: Path, patience_s: float | None = None) -> None:
        """Open the file at ``path``, an absolute path. ``patience_s``: see ``Database``."""
        self.path = path
        _keep_private(path)
        self._file = _identity(path)
        engine = self._open()
        writer = engine.execution_options(**{_WRITES: True})
        super().__init__(str(path), engine, writer, patience_s)

    def _open(self, *, foreign_keys: bool = True) -> Engine:
        engine = open_sqlite(self.path, foreign_keys=foreign_keys)

        @event.listens_for(engine, "do_connect")
        def refuse_another_file(*_: object) -> None:
            self.check_place()  # SQLite would create a file that is missing

        return engine

    @contextmanager
    def changing_tables(self) -> Iterator[Connection]:
        # Replacing a table by another of its name must not cascade to the rows that refer to it.
        engine = self._open(foreign_keys=False).execution_options(**{_WRITES: True})
        try:
            with self.translating_errors(), engine.begin() as connection:
                yield connection
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
                if broken:
                    raise StoreError(f"{self.where}: rows refer to missing rows ({broken[0]})")
        finally:
            engine.dispose()

    def moment(self, connection: Connection) -> datetime:
        return datetime.now(UTC)  # its users are all on one machine

    def backup(self, file: Path) -> None:
        if os.path.lexists(file):
            raise ConflictError(f"{file} exists; name a new file")
        try:
            # SQLite opens files by name, and others that belong to them: not where somebody else
            # could put a link or a journal there.
            parent = self.path.parent if others_can_change(file.parent) else file.parent
            with tempfile.TemporaryDirectory(prefix=".fstune-", dir=parent) as place:
                part = Path(place) / file.name
                # Created before SQLite opens it, so that it is never readable by others.
                os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                self._copy_to(part)
                put_new(part, file)
        except FileExistsError as error:
            raise ConflictError(f"{file} exists; name a new file") from error
        except OSError as error:
            raise StoreError(f"{file} cannot be created: {error.strerror}") from error
        except sqlite3.Error as error:
            raise StoreError(f"{file} cannot be written: {self.advice(error)} ({error})") from error

    def _copy_to(self, file: Path) -> None:
        with (
            self.translating_errors(),
            closing(sqlite3.connect(file)) as copy,
            self.reader.connect() as connection,
        ):
            source = connection.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            source.backup(copy)

    def damage(self) -> list[str]:
        def look(connection: Connection) -> list[str]:
            lines = connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            return [f"damaged: {line}" for line in lines if line != "ok"] + [
                f"row {row} of {table} refers to a missing row of {parent}"
                for table, row, parent, _ in broken[:10]
            ]

        return self.read(look)

    def check_place(self) -> None:
        if _identity(self.path) != self._file:
            raise StoreError(f"{self.path}: {_AWAY}")

    def advice(self, error: BaseException | None) -> str:
        code = _code(error)
        closed = _closed_to_writing(self.path) if code in _CANNOT_WRITE else ""
        return closed or _ADVICE.get(code, "unexpected error")

    def lost(self, error: DBAPIError) -> bool:
        # Another process writes for long, as an import of a long campaign does.
        return _code(error.orig) == sqlite3.SQLITE_BUSY


def _code(error: BaseException | None) -> int:
    """Return the primary result code of an error; 0 if it has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF  # the rest refines it


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one at its path; None when there is none."""
    try:
        file = path.stat()
    except OSError:
        return None
    return file.st_dev, file.st_ino


def _closed_to_writing(path: Path) -> str:
    """Return why nothing can be written beside a file, and what to do; "" when it can be."""
    directory = path.parent
    with suppress(OSError):
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            return (
                "it is on a read-only filesystem, and even reading it writes beside it; make the "
                f"filesystem writable, or copy {directory} and name the copy with --state-dir"
            )
    if directory.is_dir() and not os.access(directory, os.W_OK):
        return (
            f"its directory {directory} is read-only for this account, and even reading it writes "
            "there; use the account that owns it, or make it writable"
        )
    return ""


def _keep_private(path: Path) -> None:
    """Make a database unreadable for others, even where they can enter its directory: they could
    read or lock it. SQLite creates its other files with the same mode.
    """
    with suppress(OSError):  # a problem is reported when the file is opened
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with suppress(OSError):
        if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o077:
            path.chmod(0o600)


def open_sqlite(path: Path, *, foreign_keys: bool = True) -> Engine:
    """Return the engine for the file ``path``, which is created when first used.

    Write-ahead log: readers never wait for the writer. synchronous=FULL: a commit waits for the
    disk. A killed process would lose nothing without it, but the tuned settings can take the whole
    machine down, and one transaction every few seconds costs nothing.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # The module's own transaction handling takes the write lock too late.
        connect_args={"timeout": database.BUSY_TIMEOUT_S, "isolation_level": None},
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
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its lock at once, so that what it reads is still true when it writes.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _journal_mode(connection: sqlite3.Connection) -> str:
    """Switch to a write-ahead log; return the resulting journal mode."""
    deadline = time.monotonic() + database.BUSY_TIMEOUT_S
    while True:
        try:
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            if journal != "wal":
                (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(journal)
        except sqlite3.OperationalError as error:
            # SQLite does not wait while another process makes the same change.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_BUSY_PAUSE_S)
