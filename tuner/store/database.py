"""The common interface of SQLite and PostgreSQL databases, and their transactions.

A transaction is a function. It is run as a whole, and where a connection can break it is run again
until it has been committed exactly once. What is specific to one database is in ``sqlite`` and
``postgresql``.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from tuner.errors import ConflictError, StoreError
from tuner.interruption import uninterrupted

#: How long a transaction waits for another one's locks. They are held for milliseconds, but a disk
#: may stall.
BUSY_TIMEOUT_S = 30.0
#: How long to wait for a lost server: it, or its host, may be restarting.
PATIENCE_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
#: How often a transaction is run again at most because others were in conflict with it.
_MOST_CONFLICTS = 5

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Work = Callable[[Connection], Result]

#: JSON as stored; any mapping or configuration becomes an object. NaN and infinity are a
#: ValueError: they are not valid JSON, and other readers could not parse them.
json_text = partial(json.dumps, allow_nan=False, separators=(",", ":"), default=dict)


class Database(ABC):
    """An open database. ``where``: its name in messages, without any password."""

    #: What is said of it while it is waited for.
    absence: ClassVar[str] = "does not respond"

    def __init__(
        self, where: str, reader: Engine, writer: Engine, patience_s: float | None = None
    ) -> None:
        """Use two engines that share their connections: one for reading, one for writing
        transactions. ``patience_s``: how long to wait for a lost server or a locked file, by
        default PATIENCE_S.
        """
        self.where = where
        self.reader = reader
        self.writer = writer
        self._patience_s = patience_s
        self._has_answered = self._has_written = self._read_only = False
        self._patient_until: float | None = None

    def read(self, work: Work[Result]) -> Result:
        """Run ``work`` on one consistent snapshot of the database, isolated from concurrent
        writes.
        """
        return self._persistently(self.reader, work)

    def write(self, work: Work[Result]) -> Result:
        """Run ``work`` and commit it durably, exactly once: all of it or nothing."""
        return self._persistently(self.writer, work)

    def close(self) -> None:
        """Close the connections."""
        self.reader.dispose()

    @abstractmethod
    def changing_tables(self) -> AbstractContextManager[Connection]:
        """Return one transaction for creating and changing tables, which excludes any other such
        transaction.
        """

    @abstractmethod
    def moment(self, connection: Connection) -> datetime:
        """Return the current time by the clock of the database, which is the same for all
        processes.
        """

    def up_since(self, connection: Connection) -> datetime:
        """Return the time before which nobody could reach the database: when its server started, or
        was first used after a crash.
        """
        return datetime.min.replace(tzinfo=UTC)

    def note_reachable(self) -> None:  # noqa: B027
        """Record that the database can be reached, unless that was recorded since its server last
        crashed.
        """

    @abstractmethod
    def backup(self, file: Path) -> None:
        """Write a consistent copy to a new file while the database is in use. StoreError."""

    @abstractmethod
    def damage(self) -> list[str]:
        """Return the defects of the database itself, a sentence each; empty when it is sound."""

    def check_place(self) -> None:  # noqa: B027
        """Raise StoreError if another process that opens the database would get another one."""

    @abstractmethod
    def advice(self, error: BaseException | None) -> str:
        """Return what an error of the driver means for the user, and what to do."""

    @abstractmethod
    def lost(self, error: DBAPIError) -> bool:
        """Whether an error means that the server is gone, or not back yet, or that another process
        keeps the file locked.
        """

    def refuses_changes(self, error: DBAPIError) -> bool:
        """Whether an error means that the server can only be read."""
        return False

    def in_conflict(self, error: DBAPIError) -> bool:
        """Whether the database undid a transaction only because of concurrent ones."""
        return False

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Translate the exceptions of the driver.

        ConflictError: the new rows contradict existing ones. StoreError: anything else. A value
        that no column takes is a bug of the caller; its exception is raised unchanged.
        """
        try:
            yield
        except IntegrityError as error:
            message = _first_line(error.orig)
            raise ConflictError(f"{self.where} does not accept the change: {message}") from error
        except DBAPIError as error:
            message = _first_line(error.orig)
            raise StoreError(f"{self.where}: {self.advice(error.orig)} ({message})") from error
        except StatementError as error:
            raise (error.orig or error) from error

    def _persistently(self, engine: Engine, work: Work[Result]) -> Result:
        """Run a transaction; while the server is gone, wait and run it again. After a conflict with
        another one, run it again at once.

        A server that never answered is not waited for: its address is wrong. Nor is one that never
        let this process change anything, and can only be read. The time to wait is shared by all
        transactions, so that a run whose server does not come back ends soon.
        """
        pause_s, conflicts = _FIRST_PAUSE_S, 0
        with self.translating_errors():
            while True:
                try:
                    with uninterrupted(), engine.begin() as connection:
                        result = work(connection)
                    self._note_answer(changes=engine is self.writer)
                    return result
                except DBAPIError as error:
                    if self.in_conflict(error) and conflicts < _MOST_CONFLICTS:
                        conflicts += 1
                        continue
                    read_only = engine is self.writer and self.refuses_changes(error)
                    away = self._has_written if read_only else self._has_answered
                    if not (away and (read_only or self.lost(error))):
                        raise
                    if not self._worth_waiting(pause_s, read_only=read_only):
                        raise
                    if read_only:
                        # Another server may have become the primary: connect anew.
                        self.reader.dispose()
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _note_answer(self, *, changes: bool) -> None:
        self._has_answered, self._has_written = True, self._has_written or changes
        if self._read_only and not changes:
            return  # it can still be only read, for all that this answer says
        if self._patient_until is not None:
            _log.warning("%s responds again", self.where)
        self._patient_until, self._read_only = None, False

    def _worth_waiting(self, pause_s: float, *, read_only: bool) -> bool:
        now = time.monotonic()
        self._read_only = self._read_only or read_only
        if self._patient_until is None:
            patience_s = PATIENCE_S if self._patience_s is None else self._patience_s
            self._patient_until = now + patience_s
            what = "can only be read" if read_only else self.absence
            _log.warning("%s %s; waiting up to %.0f s", self.where, what, patience_s)
        if now + pause_s < self._patient_until:
            return True
        self._patient_until = now
        return False


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
