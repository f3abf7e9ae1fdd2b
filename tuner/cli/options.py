"""Options that several commands share, and the store, server or directory that they select."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import completion
from tuner.errors import NotFoundError, SpecError
from tuner.report.log import LogForm
from tuner.settings import ClientSettings, DatabaseSettings, Settings
from tuner.store import Store, holds_one

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Directory for campaigns, cells and packages. Default: FSTUNE_STATE_DIR, else "
        "/var/lib/fstune for root and ~/.local/state/fstune for others.",
        show_default=False,
    ),
]

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="PostgreSQL that keeps the campaigns: postgresql://USER@HOST/NAME. "
        "Default: FSTUNE_DATABASE_URL, else a file in the state directory. A password belongs "
        "in PGPASSFILE or the environment; others see it on the command line.",
        show_default=False,
    ),
]

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Use a remote server ('fstune serve'): https://HOST. Default: FSTUNE_SERVER, "
        "else local. "
        "A token comes from FSTUNE_TOKEN or from the file that FSTUNE_TOKEN_FILE names.",
        show_default=False,
    ),
]

Log = Annotated[
    LogForm | None,
    typer.Option(
        "--log",
        help="Write a log to standard error, one line per event, instead of showing progress.",
        show_default=False,
    ),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, only how it ended.")]

CampaignReference = Annotated[
    str,
    typer.Argument(
        help="A campaign's identifier, the beginning of one, its name if it is the only one of "
        "that name, or 'last': the newest that has measured something.",
        autocompletion=completion.campaigns,
    ),
]

#: For commands that cannot be undone, which refuse 'last': see ``tuner.run.steering``.
NamedCampaign = Annotated[
    str,
    typer.Argument(
        help="A campaign's identifier, the beginning of one, or its name if it is the only one of "
        "that name.",
        autocompletion=completion.named_campaigns,
    ),
]


def database_address(option: str | None) -> str | None:
    """Return the database's URL from the option or the environment.

    None means the file in the state directory.
    """
    if option is not None:
        return option
    secret = DatabaseSettings().database_url
    return None if secret is None else secret.get_secret_value()


def server_address(server: str | None, state_dir: Path | None, database: str | None) -> str | None:
    """Return the server to use: the option, otherwise that of the environment; None for none.

    The environment is ignored if an option names a local state directory or a database.
    """
    here = state_dir is not None or database is not None
    if server is not None and here:
        raise SpecError("--server: cannot be used with --state-dir or --database")
    return server if server is not None or here else ClientSettings().server


def open_store(state_dir: Path | None, database: str | None) -> Store:
    """Open the store that the options name, which is expected to exist.

    Raises NotFoundError if `state_dir` holds no store: it is probably mistyped.
    """
    if state_dir is not None and database_address(database) is None and not holds_one(state_dir):
        raise NotFoundError(
            f"--state-dir {state_dir}: no fstune database; the first campaign there creates one"
        )
    return open_or_make_store(state_dir, database)


def open_or_make_store(state_dir: Path | None, database: str | None) -> Store:
    """Open the store that the options name; create it if it does not exist."""
    return Store.open(state_directory(state_dir), database_address(database))


def state_directory(option: Path | None) -> Path:
    """Return the state directory: the option, otherwise that of the environment or the default."""
    return option if option is not None else Settings().state_dir
