"""One database and its transactions, of whichever kind it is: what SQLite and PostgreSQL share.

A transaction is a function: it is run whole, and where a connection can break, run again until it
has happened once. What is particular to a kind is in ``sqlite`` and ``postgresql``.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from tuner.errors import ConflictError, StoreError
from tuner.interruption import uninterrupted

#: How long a transaction waits for another one's locks. Those take milliseconds; a disk may stall.
BUSY_TIMEOUT_S = 30.0
#: How long a server that has gone is waited for: it may be restarted, or its host.
PATIENCE_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Work = Callable[[Connection], Result]

#: JSON as stored; any mapping or configuration goes in as a dictionary. What JSON has no number for
#: is a ValueError: other readers could not take it.
json_text = partial(json.dumps, allow_nan=False, separators=(",", ":"), default=dict)


class Database(ABC):
    """An open database. ``where`` is what it is called in messages, without any password."""

    def __init__(self, where: str, reader: Engine, writer: Engine) -> None:
        """Use two engines on the same connections: for transactions that read, and that write."""
        self.where = where
        self.reader = reader
        self.writer = writer
        self._has_answered = False
        self._patient_until: float | None = None

    def read(self, work: Work[Result]) -> Result:
        """Run ``work`` on one state of the database, whatever others write meanwhile."""
        return self._persistently(self.reader, work)

    def write(self, work: Work[Result]) -> Result:
        """Run ``work`` and keep what it did: once and for good, all of it or nothing."""
        return self._persistently(self.writer, work)

    def close(self) -> None:
        """Let go of the database."""
        self.reader.dispose()

    @abstractmethod
    def changing_tables(self) -> AbstractContextManager[Connection]:
        """One transaction in which tables are made and changed, by nobody else at the same time."""

    @abstractmethod
    def moment(self, connection: Connection) -> datetime:
        """What time it is where the database is: the same clock for whoever asks."""

    @abstractmethod
    def backup(self, file: Path) -> None:
        """Write a copy of one moment to a new file, while others go on. StoreError."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What is wrong with the database as such: a sentence for each, none when it is sound."""

    @abstractmethod
    def advice(self, error: BaseException | None) -> str:
        """What an error of the driver means for the user, and what to do."""

    @abstractmethod
    def lost(self, error: DBAPIError) -> bool:
        """Whether an error says that the server is gone, or not yet there again."""

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Turn the driver's exceptions into ours.

        ConflictError: the new rows contradict existing ones. StoreError: all else. A
        value that no column takes is the caller's mistake and stays the exception that it is.
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
        """Run a transaction; as long as the server is gone, wait and run it again.

        One that never answered is not waited for: its address is wrong. Patience is for all
        transactions together, so that a run whose server does not come back ends soon.
        """
        pause_s = _FIRST_PAUSE_S
        with self.translating_errors():
            while True:
                try:
                    with uninterrupted(), engine.begin() as connection:
                        result = work(connection)
                    self._note_answer()
                    return result
                except DBAPIError as error:
                    if not (self._has_answered and self.lost(error)) or not self._worth_waiting(
                        pause_s
                    ):
                        raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _note_answer(self) -> None:
        if self._patient_until is not None:
            _log.warning("%s answers again", self.where)
        self._has_answered, self._patient_until = True, None

    def _worth_waiting(self, pause_s: float) -> bool:
        now = time.monotonic()
        if self._patient_until is None:
            self._patient_until = now + PATIENCE_S
            _log.warning("%s does not answer; waiting up to %.0f s", self.where, PATIENCE_S)
        if now + pause_s < self._patient_until:
            return True
        self._patient_until = now
        return False


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
