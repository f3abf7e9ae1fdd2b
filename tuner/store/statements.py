"""Statements that a campaign runs hundreds of times: to construct one takes longer than to run it.

Parameters: ``of``, the campaign; ``at``, a number.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BindParameter, bindparam, delete, func, select, update

from tuner.store import tables

_OF: Final[BindParameter[str]] = bindparam("of")

CAMPAIGN: Final = select(tables.campaign).where(tables.campaign.c.id == _OF)
LOCKED_CAMPAIGN: Final = CAMPAIGN.with_for_update()
#: Its other parameters are the columns to be changed.
UPDATED: Final = update(tables.campaign).where(tables.campaign.c.id == _OF)
DROP_REQUEST: Final = delete(tables.request).where(tables.request.c.campaign == _OF)
LAST_EVENT: Final = select(func.max(tables.event.c.number)).where(tables.event.c.campaign == _OF)
TRIALS: Final = (
    select(tables.trial).where(tables.trial.c.campaign == _OF).order_by(tables.trial.c.number)
)
BLOCK: Final = select(tables.block).where(
    tables.block.c.campaign == _OF, tables.block.c.number == bindparam("at")
)
