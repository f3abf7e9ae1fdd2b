"""The database: what a campaign did, kept as it happens. Only this package knows SQLAlchemy."""

from tuner.store.rows import NewEvent
from tuner.store.store import Store

__all__ = ["NewEvent", "Store"]
