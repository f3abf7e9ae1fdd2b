"""An open database as a store uses it: one transaction for each thing that is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Row

from tuner.store import queries, schema
from tuner.store.database import Database
from tuner.store.opening import open_database

Result = TypeVar("Result")


class OpenStore:
    """What every method of the store rests on."""

    def __init__(self, database: Database) -> None:
        """Use an open database; make its tables if it is empty."""
        self._database = database
        schema.prepare(database)

    @classmethod
    def open(cls, state_directory: Path, database: str | None = None) -> Self:
        """Open the database at this address, else that of the directory; make what is not there."""
        opened_database = open_database(state_directory, database)
        try:
            return cls(opened_database)
        except BaseException:
            opened_database.close()
            raise

    @property
    def where(self) -> str:
        """What the database is called in messages."""
        return self._database.where

    def damage(self) -> list[str]:
        """What is wrong with the database as such, a sentence for each."""
        return self._database.damage()

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Transactions

    def _read(self, campaign: str, work: Callable[[Connection], Result]) -> Result:
        """Read of one campaign; NotFoundError when there is none."""

        def read(connection: Connection) -> Result:
            queries.campaign_row(connection, campaign)
            return work(connection)

        return self._database.read(read)

    def _change(self, campaign: str, work: Callable[[Connection, Row[Any]], Result]) -> Result:
        """Change one campaign, alone: its row is locked until the end."""
        return self._database.write(
            lambda connection: work(
                connection, queries.campaign_row(connection, campaign, lock=True)
            )
        )
