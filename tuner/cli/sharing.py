"""Commands that list campaigns, tell who runs which where, and steer them from another process or
machine.
"""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import typer
from rich.console import Console

from tuner.campaign import presence
from tuner.campaign.steering import steer
from tuner.cli.options import (
    CampaignReference,
    Database,
    Server,
    StateDir,
    open_store,
    server_address,
)
from tuner.model import Wish
from tuner.report.status import status_pages
from tuner.report.tables import campaigns_table, show


def pause(
    campaign: CampaignReference = "last",
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Pause a running campaign at its next safe point; 'fstune resume' goes on.

    The block that it is in is measured again then. Works from any machine that shares the database,
    and through a server.
    """
    _ask(campaign, Wish.PAUSE, state_dir, database, server)


def cancel(
    campaign: CampaignReference,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """End a campaign for good, at its next safe point if it runs. What it has measured stays."""
    _ask(campaign, Wish.CANCEL, state_dir, database, server)


def status(state_dir: StateDir = None, database: Database = None, server: Server = None) -> None:
    """Show who runs which campaign where, and when each was last heard of.

    With a queue, also what waits there, and the workers.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.status(address)
        return
    with open_store(state_dir, database) as store:
        found = presence.status(store)
    for page in status_pages(found):
        show(Console(), page)


def list_campaigns(
    state_dir: StateDir = None, database: Database = None, server: Server = None
) -> None:
    """List all campaigns, newest first."""
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.list_campaigns(address)
        return
    with open_store(state_dir, database) as store:
        show(Console(), campaigns_table(store.campaigns()))


def _ask(
    reference: str, wish: Wish, state_dir: StateDir, database: Database, server: Server
) -> None:
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.steer(address, reference, wish)
        return
    with open_store(state_dir, database) as store:
        found = store.campaign(reference)
        typer.echo(steer(store, found, wish, socket.gethostname(), datetime.now(UTC)))
