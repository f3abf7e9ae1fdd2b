"""Requests that an earlier process of the service accepted, and that nobody will carry out.

Such a request is cleared when the service starts; otherwise nobody could repeat it. The processes
that carry requests out survive the service, and may not hold their testbed yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from tuner.errors import TunerError
from tuner.holders import is_gone
from tuner.store import Store
from tuner.store.applications import Applications
from tuner.store.verifications import Verifications

#: The longest time until the process of a request holds its testbed.
STARTING = timedelta(minutes=2)


@asynccontextmanager
async def clearing_lost_requests(store: Store) -> AsyncIterator[None]:
    """Clear those that are older than ``STARTING`` now, and those left over after it later."""
    start = datetime.now(UTC)
    # The service must start all the same; it is tried again later.
    with suppress(TunerError):
        _clear(store, start - STARTING)
    later = asyncio.create_task(_clear_later(store, start))
    try:
        yield
    finally:
        later.cancel()
        with suppress(asyncio.CancelledError):
            await later


async def _clear_later(store: Store, before: datetime) -> None:
    await asyncio.sleep(STARTING.total_seconds())
    with suppress(TunerError):  # already logged; the next start tries again
        await asyncio.to_thread(_clear, store, before)


def _clear(store: Store, before: datetime) -> None:
    Applications(store).unask_all(is_gone, before)
    Verifications(store).fail_all(is_gone, before)
