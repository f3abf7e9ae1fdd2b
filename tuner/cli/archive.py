"""Commands that write a whole campaign to a file, and read such files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import (
    CampaignReference,
    Database,
    Server,
    StateDir,
    open_or_make_store,
    open_store,
    server_address,
)
from tuner.store.archive import export_campaign, import_campaign


def export(
    campaign: CampaignReference,
    file: Annotated[Path, typer.Argument(help="The file to write, which must not exist.")],
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Write a whole campaign to a file: everything it measured, decided and told.

    One that runs may go on meanwhile. 'fstune import' reads the file, here or elsewhere.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.export(address, campaign, file)
        return
    with open_store(state_dir, database) as store:
        found = store.campaign(campaign)
        rows = export_campaign(store, found.id, file)
    typer.echo(f"campaign {found.id}: {rows} rows written to {file}")


def import_file(
    file: Annotated[Path, typer.Argument(help="A file that 'fstune export' wrote.")],
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Add the campaign of a file to the others, as it was; one that is here already is refused."""
    with open_or_make_store(state_dir, database) as store:
        typer.echo(f"campaign {import_campaign(store, file)} is in {store.where}")
