"""Selection of the database: the file of a state directory, or one of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import StoreError
from tuner.store.database import Database
from tuner.store.sqlite import SQLite

#: The file name of the database in its state directory.
FILE = "fstune.sqlite3"


def open_database(
    state_directory: Path, address: str | None = None, patience_s: float | None = None
) -> Database:
    """Return the database at ``address`` (postgresql://USER@HOST/NAME), by default the directory's
    file. ``patience_s``: how long to wait for a lost server.

    Its tables are not checked yet. Creates the state directory. Raises StoreError and SpecError.
    """
    if address is not None:
        # Imported here: it is slow to import, and most users do not need it.
        from tuner.store.postgresql import PostgreSQL

        return PostgreSQL(address, patience_s)
    directory = state_directory.absolute()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{directory}: cannot create the state directory ({error.strerror}); "
            "choose another with --state-dir or FSTUNE_STATE_DIR"
        ) from error
    return SQLite(directory / FILE, patience_s)


def holds_one(state_directory: Path) -> bool:
    """Whether a directory contains a database."""
    return (state_directory / FILE).exists()
