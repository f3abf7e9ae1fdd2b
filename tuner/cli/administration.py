"""Commands that list campaigns, show who runs which where, and steer them from other processes."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from tuner.cli.options import (
    CampaignReference,
    Database,
    NamedCampaign,
    Server,
    StateDir,
    open_store,
    server_address,
)
from tuner.cli.output import AsJson
from tuner.cli.say import plain, say
from tuner.errors import ConflictError
from tuner.model import Campaign, Wish
from tuner.report.campaign_list import campaigns_table
from tuner.report.json_documents import listed_json, status_json
from tuner.report.listing import output, show
from tuner.report.status import status_pages
from tuner.results.expiry import with_expiries
from tuner.run import presence
from tuner.run.steering import in_use, refuse_last, steer
from tuner.states import CampaignState
from tuner.store.deletion import delete_campaign


def pause(
    campaign: CampaignReference = "last",
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Pause a running campaign at its next safe point; 'fstune resume' continues it.

    Its current block is then measured again. Works from any machine that shares the database, and
    through a server.
    """
    _ask(campaign, Wish.PAUSE, state_dir, database, server)


def cancel(
    campaign: NamedCampaign,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """End a campaign for good, at its next safe point if it runs. Its measurements are kept."""
    _ask(campaign, Wish.CANCEL, state_dir, database, server)


def status(
    as_json: AsJson = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Show who runs which campaign where, and when each was last seen.

    With a queue, also what waits there, and the workers.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        now = remote.status(address)
    else:
        with open_store(state_dir, database) as store:
            now = presence.status(store)
    if as_json:
        say(status_json(now))
        return
    for page in status_pages(now):
        show(output(), page)


def list_campaigns(
    state: Annotated[
        list[CampaignState] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help=f"Only campaigns in this state ({', '.join(CampaignState)}); may be repeated.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Only campaigns with this in their name.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=1_000_000, help="At most this many.")
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """List campaigns, newest first."""
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        rows, stalled = remote.list_campaigns(address)
        selection = _matching(rows, state, name, limit)
    else:
        with open_store(state_dir, database) as store:
            rows = store.campaigns()
            running = any(each.state is CampaignState.RUNNING for each in rows)
            stalled = presence.status(store).stalled() if running else {}
            selection = with_expiries(store, _matching(rows, state, name, limit))
    if as_json:
        say(listed_json(selection, stalled))
    elif rows and not selection:
        say("No campaign matches.")
    else:
        show(output(), campaigns_table(selection, stalled))


def _matching(
    campaigns: Sequence[Campaign],
    state: Collection[CampaignState] | None,
    name: str | None,
    limit: int | None,
) -> list[Campaign]:
    return [
        each
        for each in campaigns
        if (not state or each.state in state) and (name or "").lower() in each.name.lower()
    ][:limit]


def delete(
    campaign: NamedCampaign,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Delete a campaign with everything that was measured in it; this cannot be undone.

    Use 'fstune export' first to save it to a file.
    """
    with open_store(state_dir, database) as store:
        refuse_last(campaign, store.campaign, "delete")
        record = store.campaign(campaign)
        waits = any(run.campaign == record.id for run in presence.status(store).waiting)
        if waits or in_use(store, record.id):
            what = "waits for a worker" if waits else "is in use"
            raise ConflictError(f"campaign {record.id} {what}; first: fstune cancel {record.id}")
        what = f"campaign {record.id} ({record.name}, {record.state})"
        if not yes and not _confirmed(f"Delete {what}?"):
            say(f"fstune: {what} is kept; --yes deletes it without asking", err=True)
            raise typer.Exit(1)
        delete_campaign(store, record.id)
    say(f"{what} is deleted")


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(plain(question))
    except typer.Abort:  # there is nobody to answer
        say("", err=True)
        return False


def _ask(
    reference: str, wish: Wish, state_dir: StateDir, database: Database, server: Server
) -> None:
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.steer(address, reference, wish)
        return
    with open_store(state_dir, database) as store:
        if wish is Wish.CANCEL:
            refuse_last(reference, store.campaign, "cancel")
        record = store.campaign(reference)
        say(steer(store, record, wish, socket.gethostname(), datetime.now(UTC)))
