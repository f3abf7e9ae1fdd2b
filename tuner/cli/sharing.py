"""Commands that steer campaigns from another process or machine, and tell who runs what where."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import typer
from rich.console import Console

from tuner.campaign.holding import is_gone
from tuner.campaign.steering import steer
from tuner.cli.options import CampaignReference, Database, StateDir, open_store
from tuner.model import Wish
from tuner.report.status import status_table
from tuner.report.tables import show
from tuner.states import CampaignState


def pause(
    campaign: CampaignReference = "last", state_dir: StateDir = None, database: Database = None
) -> None:
    """Pause a running campaign at its next safe point; 'fstune resume' goes on.

    The block that it is in is measured again then. Works from any machine that shares the database.
    """
    _ask(campaign, Wish.PAUSE, state_dir, database)


def cancel(
    campaign: CampaignReference, state_dir: StateDir = None, database: Database = None
) -> None:
    """End a campaign for good, at its next safe point if it runs. What it has measured stays."""
    _ask(campaign, Wish.CANCEL, state_dir, database)


def status(state_dir: StateDir = None, database: Database = None) -> None:
    """Show who runs which campaign where, and when each was last heard of."""
    with open_store(state_dir, database) as store:
        leases = store.leases()
        held = {lease.campaign for lease in leases}
        running = [c for c in store.campaigns() if c.state is CampaignState.RUNNING]
        requests = {c.id: store.request(c.id) for c in running}
        names = {c.id: c.name for c in running}
        lost = [c for c in running if c.id not in held]
        gone = {lease.campaign for lease in leases if is_gone(lease.holder)}
    show(Console(), status_table(leases, names, gone, requests, lost))


def _ask(reference: str, wish: Wish, state_dir: StateDir, database: Database) -> None:
    with open_store(state_dir, database) as store:
        found = store.campaign(reference)
        typer.echo(steer(store, found, wish, socket.gethostname(), datetime.now(UTC)))
