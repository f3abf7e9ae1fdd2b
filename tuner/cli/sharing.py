"""Commands that steer campaigns from another process or machine, and tell who runs what where."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import typer
from rich.console import Console

from tuner.campaign.holding import is_gone
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
from tuner.report.status import queue_table, status_table, workers_table
from tuner.report.tables import show
from tuner.states import CampaignState
from tuner.store.queue import Queue


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
        leases = store.leases()
        held = {lease.campaign for lease in leases}
        running = [c for c in store.campaigns() if c.state is CampaignState.RUNNING]
        requests = {c.id: store.request(c.id) for c in running}
        names = {c.id: c.name for c in running}
        lost = [c for c in running if c.id not in held]
        gone = {lease.campaign for lease in leases if is_gone(lease.holder)}
        queue = Queue.found(store)
        runs = [] if queue is None else queue.runs()
        workers = [] if queue is None else queue.workers()
        all_names = {c.id: c.name for c in store.campaigns()} if runs else {}
    show(Console(), status_table(leases, names, gone, requests, lost))
    waiting = [run for run in runs if not run.taken]
    if waiting:
        show(Console(), queue_table(waiting, all_names, workers))
    if workers:
        dead = {worker.id for worker in workers if is_gone(worker.holder)}
        show(Console(), workers_table(workers, runs, dead))


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
