"""Commands that maintain the database of campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import Database, StateDir, database_address, open_store, state_directory
from tuner.cli.say import say
from tuner.errors import StoreError
from tuner.holders import is_gone
from tuner.store import backup, problems
from tuner.store import upgrade as upgrade_database
from tuner.text import counted

app = typer.Typer(no_args_is_help=True, help="Maintain the database of campaigns.")


@app.command()
def upgrade(state_dir: StateDir = None, database: Database = None) -> None:
    """Upgrade the database of an older fstune; stop every other fstune first. Refused while a
    campaign runs.

    A database file in the state directory is copied before anything changes; back up a PostgreSQL
    database yourself ('fstune db backup').
    """
    result = upgrade_database(state_directory(state_dir), database_address(database), is_gone)
    if result.copy is not None:
        say(f"the database as it was before is in {result.copy}")
    if result.before is None:
        say(f"{result.where}: created, revision {result.after}")
    elif result.before == result.after:
        say(f"{result.where}: revision {result.after}, nothing to do")
    else:
        say(f"{result.where}: upgraded from revision {result.before} to {result.after}")
    if result.queue:
        say(f"{result.where}: the queue of the workers is up to date")


@app.command()
def check(state_dir: StateDir = None, database: Database = None) -> None:
    """Check that the database is sound: its revision, its files, and its records of campaigns."""
    with open_store(state_dir, database) as store:
        sentences = problems(store)
        campaigns = len(store.campaigns())
        where = store.where
    for problem in sentences:
        say(problem)
    if sentences:
        raise StoreError(
            f"{where}: {counted(len(sentences), 'problem')}; restore a backup, or ask for help "
            "with this output"
        )
    say(f"{where}: sound, {counted(campaigns, 'campaign')}")


@app.command("backup")
def make_backup(
    file: Annotated[Path, typer.Argument(help="The file to write, which must not exist.")],
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Copy the database as it is at this moment; campaigns may continue meanwhile.

    The copy of a database file is a database file; that of PostgreSQL is for pg_restore.
    """
    where = backup(state_directory(state_dir), file, database_address(database))
    say(f"{where}: copied to {file}")
