"""Deletion of a campaign with all of its measurements."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from tuner.errors import ConflictError
from tuner.states import IN_FORCE, CampaignState
from tuner.store import queries, tables
from tuner.store.archive import TABLES
from tuner.store.queue import remove_job
from tuner.store.sqlite import SQLite
from tuner.store.store import Store


def delete_campaign(store: Store, campaign: str) -> None:
    """Delete a campaign, all of it or nothing, also from the queue. ``campaign``: its identifier.

    The caller makes sure that no process uses it. Raises ConflictError while its state is running,
    or its configuration is in force.
    """

    def remove(connection: Connection) -> None:
        row = queries.campaign_row(connection, campaign, lock=True)
        if row.state is CampaignState.RUNNING:
            raise ConflictError(
                f"campaign {campaign} is {row.state}; end it first: fstune cancel {campaign}"
            )
        applied = tables.application
        of = (applied.c.campaign == campaign) & applied.c.state.in_(IN_FORCE)
        if application := connection.scalars(select(applied.c.id).where(of)).first():
            raise ConflictError(
                f"campaign {campaign} has a configuration in force and is the only record of what "
                f"was there before; restore that first: fstune rollback {application}"
            )
        for table in (applied, tables.request, tables.lease, tables.posted, *reversed(TABLES)):
            key = table.c.id if table is tables.campaign else table.c.campaign
            connection.execute(delete(table).where(key == campaign))
        if not isinstance(store._database, SQLite):
            remove_job(connection, campaign)

    store._database.write(remove)
