"""The base of the store: an open database, with one transaction for each operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Row

from tuner.interruption import uninterrupted
from tuner.store import queries, schema
from tuner.store.database import Database
from tuner.store.opening import open_database

Result = TypeVar("Result")


class OpenStore:
    """Base class of the store."""

    def __init__(self, database: Database) -> None:
        """Use an open database; create its tables if it is empty."""
        self._database = database
        schema.prepare(database)

    @classmethod
    def open(
        cls, state_directory: Path, database: str | None = None, patience_s: float | None = None
    ) -> Self:
        """Open the database at this address, by default that of the directory; create what is
        missing. ``patience_s``: how long to wait for a lost server, by default five minutes.
        """
        opened_database = open_database(state_directory, database, patience_s)
        try:
            return cls(opened_database)
        except BaseException:
            opened_database.close()
            raise

    @property
    def where(self) -> str:
        """The name of the database in messages."""
        return self._database.where

    def damage(self) -> list[str]:
        """Return the defects of the database itself, a sentence for each."""
        return self._database.damage()

    def close(self) -> None:
        """Close the database."""
        # Interrupted there, the connection pool would print the exception and drop it.
        with uninterrupted():
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Transactions

    def _read(self, campaign: str, work: Callable[[Connection], Result]) -> Result:
        """Run a reading transaction about one campaign; NotFoundError when it does not exist."""

        def read(connection: Connection) -> Result:
            queries.campaign_row(connection, campaign)
            return work(connection)

        return self._database.read(read)

    def _change(self, campaign: str, work: Callable[[Connection, Row[Any]], Result]) -> Result:
        """Run a writing transaction on one campaign, whose row stays locked until its end."""
        return self._database.write(
            lambda connection: work(
                connection, queries.campaign_row(connection, campaign, lock=True)
            )
        )
