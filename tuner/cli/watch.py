"""``fstune watch``: watch a campaign that another process runs."""

from __future__ import annotations

from tuner.cli.options import (
    CampaignReference,
    Database,
    Log,
    Quiet,
    Server,
    StateDir,
    open_store,
    server_address,
)
from tuner.cli.watching import StoreSource, watched


def watch(
    campaign: CampaignReference = "last",
    log: Log = None,
    quiet: Quiet = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Watch a campaign that another process runs, from its beginning until it stops.

    Ctrl-C only stops watching. The exit status is that of 'fstune run'.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.watch(address, campaign, log, quiet=quiet)
        return
    with open_store(state_dir, database) as store:
        watched(StoreSource(store, store.campaign(campaign).id), 0, log, quiet=quiet)
