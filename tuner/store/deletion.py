"""Deleting a campaign with everything that was measured in it."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from tuner.errors import ConflictError
from tuner.states import CampaignState
from tuner.store import queries, tables
from tuner.store.archive import TABLES
from tuner.store.store import Store


def delete_campaign(store: Store, campaign: str) -> None:
    """Delete a campaign, all of it or nothing. ``campaign``: its identifier.

    The caller makes sure that no process uses it. Raises ConflictError while its state is running.
    """

    def remove(connection: Connection) -> None:
        row = queries.campaign_row(connection, campaign, lock=True)
        if row.state is CampaignState.RUNNING:
            raise ConflictError(
                f"campaign {campaign} is {row.state}; end it first: fstune cancel {campaign}"
            )
        for table in (tables.request, tables.lease, tables.posted, *reversed(TABLES)):
            key = table.c.id if table is tables.campaign else table.c.campaign
            connection.execute(delete(table).where(key == campaign))

    store._database.write(remove)
