"""Commands that export a complete campaign to a file, and import such files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, BinaryIO

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
from tuner.cli.say import say
from tuner.errors import SpecError
from tuner.store.archive import export_campaign, import_campaign, write_campaign


def export(
    campaign: CampaignReference,
    file: Annotated[
        Path, typer.Argument(help="The file to write, which must not exist; - for standard output.")
    ],
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Export a complete campaign to a file: measurements, decisions, events.

    A running campaign continues. 'fstune import' reads the file, here or elsewhere.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        if str(file) == "-":
            with _standard_output() as output:
                remote.export_to(address, campaign, output)
            return
        remote.export(address, campaign, file)
        return
    with open_store(state_dir, database) as store:
        record = store.campaign(campaign)
        if str(file) == "-":
            with _standard_output() as output:
                write_campaign(store, record.id, output)
            return
        rows = export_campaign(store, record.id, file)
    say(f"campaign {record.id}: {rows} rows written to {file}")


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    """Yield a temporary file that is copied to standard output once complete.

    It is buffered because the export may have to be restarted from the beginning.
    """
    if sys.stdout.isatty():
        raise SpecError("an exported campaign is binary; name a file, or write it to a pipe")
    with TemporaryFile() as whole:
        yield whole
        whole.seek(0)
        shutil.copyfileobj(whole, sys.stdout.buffer)


def import_file(
    file: Annotated[Path, typer.Argument(help="A file that 'fstune export' wrote.")],
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Import a campaign from a file, unchanged; a campaign that exists already is refused."""
    # Imported here because reading specifications is slow to import.
    from tuner.spec.imported_configurations import RowChecker

    with open_or_make_store(state_dir, database) as store:
        campaign = import_campaign(store, file, RowChecker().check)
        say(f"campaign {campaign} was imported into {store.where}")
