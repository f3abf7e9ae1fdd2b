"""The database of campaigns, written while they run. Only this package imports SQLAlchemy."""

from tuner.store.leases import Running
from tuner.store.opening import holds_one
from tuner.store.rows import NewEvent
from tuner.store.store import Store
from tuner.store.upkeep import Upgraded, backup, problems, upgrade

__all__ = ["NewEvent", "Running", "Store", "Upgraded", "backup", "holds_one", "problems", "upgrade"]
