"""PostgreSQL databases: addresses, sessions, failures and backups."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from sqlalchemy import URL, Connection, create_engine, delete, make_url
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError, DBAPIError

from tuner.errors import SpecError, StoreError
from tuner.new_file import new_file
from tuner.store import database, tables
from tuner.store.database import Database, Result, Work, json_text

_SCHEMES = ("postgresql", "postgres")
#: The advisory lock held while our tables are created or changed.
_TABLES_LOCK = 0x6673_7475_6E65
_BACKUP_TIMEOUT_S = 3600
#: A mark is needed only while its transaction is being retried.
_MARKS_KEPT_FOR = timedelta(days=1)
_MARKS_FORGOTTEN_EVERY = 100

# The start of the server is not the time since which it can be reached: it also restarts its
# sessions alone when one of them crashes, replays its log before it answers, and may have been a
# standby. But after each of these, an unlogged table is empty. It is not part of our tables, since
# it exists in PostgreSQL only; it is created when the first testbed is taken.
_REACHABLE_READABLE = (
    "SELECT COALESCE(has_table_privilege(to_regclass('reachable'), 'SELECT'), false)"
)
_CREATE_REACHABLE = (
    "CREATE UNLOGGED TABLE IF NOT EXISTS reachable (id boolean PRIMARY KEY DEFAULT true "
    "CHECK (id), since timestamp with time zone NOT NULL)"
)
_MAY_NOTE_REACHABLE = (
    "SELECT COALESCE(has_table_privilege(to_regclass('reachable'), 'INSERT'), "
    "has_schema_privilege(current_schema(), 'CREATE'))"
)
_NOTE_REACHABLE = "INSERT INTO reachable (since) VALUES (clock_timestamp()) ON CONFLICT DO NOTHING"

#: Options of a session for libpq and the server, unless the address or the environment has others.
#: A network that drops packets must not block a campaign for hours.
_SESSION = {
    "application_name": "fstune",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_VARIABLES = {"application_name": "PGAPPNAME", "connect_timeout": "PGCONNECT_TIMEOUT"}
#: Settings of a session in the server. It must not keep the locks of a process that was stopped, or
#: whose machine is gone: a transaction in which nothing happens for this time ends.
_IDLE_S = 60.0
_KEEPALIVES = {
    "tcp_keepalives_idle": 30,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}

_NO_ANSWER = (
    "no connection; is it running? Check address, user and password (PGPASSWORD, PGPASSFILE)"
)
_ADVICE = {
    "08": _NO_ANSWER,
    "25006": "it can only be read, as a replica can; use the primary",
    "40": "conflicting transactions; try again",
    "42501": "the user lacks privileges; use the owner of the database",
    "53": "it is out of resources; see its log",
    "53100": "its disk is full; make room and try again; 'fstune resume' continues a campaign",
    "55P03": "locked by another process; end that process and try again",
    "57P": _NO_ANSWER,
    "58": "disk error; check the disk and its log",
    "XX": "it is damaged; see its log",
}
#: SQLSTATEs: shutting down, crashed, starting up; too many connections.
_AWAY = ("57P01", "57P02", "57P03", "53300")
#: SQLSTATE: a change in a read-only transaction.
_READ_ONLY = "25006"
#: SQLSTATEs: not serializable; a deadlock.
_CONFLICTS = ("40001", "40P01")

# What holds for rows that meet a condition on SQLite holds for the same rows here.
for _table in tables.metadata.tables.values():
    for _index in _table.indexes:
        _condition = _index.dialect_kwargs.get("sqlite_where")
        if _condition is not None:
            _index.dialect_kwargs["postgresql_where"] = _condition


class PostgreSQL(Database):
    """A database of a PostgreSQL server, version 15 or newer."""

    def __init__(self, address: str, patience_s: float | None = None) -> None:
        """Use the database at ``address``: postgresql://USER@HOST/NAME. SpecError when it is not
        valid. ``patience_s``: see ``Database``.

        Defaults for what the address leaves out come from libpq's environment (PGPASSFILE and
        others).
        """
        self._url = _url(address)
        self._session = {
            name: value
            for name, value in _SESSION.items()
            if name not in self._url.query and not os.environ.get(_VARIABLES.get(name, ""))
        }
        # Those of the user come last, so that they prevail. As for libpq, the address replaces the
        # environment.
        theirs = self._url.normalized_query.get("options") or (os.environ.get("PGOPTIONS", ""),)
        self._session["options"] = " ".join([_options(), *theirs]).rstrip()
        engine = create_engine(
            self._url,
            connect_args=self._session,
            json_serializer=json_text,
            max_overflow=-1,
        )
        super().__init__(
            # The query of an address may contain a password, too.
            _without_password(self._url).set(query={}).render_as_string(),
            engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True),
            # Not False: a standby would refuse the transaction as a whole, with an error that does
            # not say why.
            engine.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=None),
            patience_s,
        )

    def driver_arguments(self) -> tuple[str, dict[str, object]]:
        """Return what the driver needs to connect: the address, which may contain a password, and
        other arguments.
        """
        return _for_libpq(self._url.set(drivername="postgresql")), dict(self._session)

    def write(self, work: Work[Result]) -> Result:
        """Run ``work`` and commit it exactly once; it may be run again when the connection breaks.

        If the connection breaks during the commit, it is unknown whether the commit succeeded. So a
        mark is inserted in the same transaction, and a second attempt checks for it. Its insertion
        waits for the first transaction, in case the server is still executing that.
        """
        mark = secrets.token_hex(16)
        results: list[Result] = []

        def marked(connection: Connection) -> Result:
            now = datetime.now(UTC)
            new = insert(tables.mark).values(id=mark, at=now).on_conflict_do_nothing()
            if connection.scalar(new.returning(tables.mark.c.id)) is not None:
                if secrets.randbelow(_MARKS_FORGOTTEN_EVERY) == 0:
                    connection.execute(
                        delete(tables.mark).where(tables.mark.c.at < now - _MARKS_KEPT_FOR)
                    )
                results[:] = [work(connection)]
            return results[0]

        return super().write(marked)

    @contextmanager
    def changing_tables(self) -> Iterator[Connection]:
        with self.translating_errors(), self.writer.begin() as connection:
            # A migration may compute for long.
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_TABLES_LOCK})")
            yield connection

    def moment(self, connection: Connection) -> datetime:
        now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        assert isinstance(now, datetime)
        return now

    def up_since(self, connection: Connection) -> datetime:
        since = "pg_postmaster_start_time()"
        if connection.exec_driver_sql(_REACHABLE_READABLE).scalar_one():
            # While nobody has noted it, nobody could send a heartbeat either.
            noted = "COALESCE((SELECT since FROM reachable), clock_timestamp())"
            since = f"GREATEST({since}, {noted})"
        start = connection.exec_driver_sql(f"SELECT {since}").scalar_one()
        assert isinstance(start, datetime)
        return start

    def note_reachable(self) -> None:
        def is_due(connection: Connection) -> bool:
            if not connection.exec_driver_sql(_MAY_NOTE_REACHABLE).scalar_one():
                return False  # only the start of the server is known then
            if not connection.exec_driver_sql(_REACHABLE_READABLE).scalar_one():
                return True
            return connection.exec_driver_sql("SELECT since FROM reachable").first() is None

        def note(connection: Connection) -> None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_TABLES_LOCK})")
            connection.exec_driver_sql(_CREATE_REACHABLE)
            connection.exec_driver_sql(_NOTE_REACHABLE)

        if self.read(is_due):
            self.write(note)

    def backup(self, file: Path) -> None:
        program = shutil.which("pg_dump")
        if program is None:
            raise StoreError(
                f"{self.where}: pg_dump is missing; install PostgreSQL's client programs"
            )
        # Process arguments are visible to everybody, the environment only to its owner.
        secret = self._url.password or self._url.query.get("password")
        url = _without_password(self._url)
        environment = dict(os.environ, LC_ALL="C.UTF-8")
        if secret is not None:
            environment["PGPASSWORD"] = str(secret)
        command = [program, "--format=custom", "--no-password"]
        with new_file(file) as output:
            try:
                result = subprocess.run(
                    [*command, f"--dbname={_for_libpq(url)}"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=_BACKUP_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise StoreError(f"{self.where}: pg_dump took more than an hour") from error
            if result.returncode != 0:
                lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
                raise StoreError(f"{self.where}: backup failed ({lines[0]})")

    def damage(self) -> list[str]:
        # The server enforces every constraint, and finds damaged pages itself if configured to.
        return []

    def advice(self, error: BaseException | None) -> str:
        state = getattr(error, "sqlstate", None)
        if state is None:
            return _NO_ANSWER if isinstance(error, psycopg.OperationalError) else "unexpected error"
        advice = (_ADVICE.get(state[:length]) for length in (5, 3, 2))
        return next(filter(None, advice), "unexpected error")

    def lost(self, error: DBAPIError) -> bool:
        if error.connection_invalidated:
            return True
        state = getattr(error.orig, "sqlstate", None)
        if state is None:  # no connection was established
            return isinstance(error.orig, psycopg.OperationalError)
        return state in _AWAY or state.startswith("08")

    def refuses_changes(self, error: DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) == _READ_ONLY

    def in_conflict(self, error: DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in _CONFLICTS


def _options() -> str:
    """Return our settings of a session in the server, as arguments of its command line."""
    settings = {
        "timezone": "UTC",
        "lock_timeout": max(1, round(database.BUSY_TIMEOUT_S * 1000)),
        "idle_in_transaction_session_timeout": round(_IDLE_S * 1000),
        **_KEEPALIVES,
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _for_libpq(url: URL) -> str:
    """Return an address as libpq reads it, which does not take a plus sign for a space. It contains
    the password, if there is one.
    """
    address, mark, query = url.render_as_string(hide_password=False).partition("?")
    return address + mark + query.replace("+", "%20")


def _without_password(url: URL) -> URL:
    """Return the address in a form that may be shown to everybody and that libpq accepts."""
    query = {name: value for name, value in url.query.items() if "password" not in name}
    return URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)


def _url(address: str) -> URL:
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    # The message does not repeat it: it may contain a password.
    if url is None or url.get_backend_name() not in _SCHEMES or not url.database:
        raise SpecError("a database address has the form postgresql://USER@HOST/NAME") from None
    return url.set(drivername="postgresql+psycopg")
