"""Where a run's wall time goes: every second belongs to one account, the rest is our own
overhead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from tuner.model import TimeUse

Account = Literal["testbed", "apply", "workload"]


class Ledger:
    """Adds up time by account. Accounts do not overlap: an inner one interrupts the outer one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._began = clock()
        self._spent: dict[Account, float] = {"testbed": 0.0, "apply": 0.0, "workload": 0.0}
        self._current: Account | None = None
        self._since = self._began
        self._written = TimeUse()

    @contextmanager
    def on(self, account: Account | None) -> Iterator[None]:
        """Charge the time of this block to ``account``; None for our own overhead."""
        outer = self._switch(account)
        try:
            yield
        finally:
            self._switch(outer)

    def spent_on(self, account: Account) -> float:
        """Seconds charged to ``account`` so far, time of a block still open not counted."""
        return self._spent[account]

    def total(self) -> TimeUse:
        """Everything so far."""
        self._switch(self._current)
        return TimeUse(
            wall_s=self.clock() - self._began,
            testbed_s=self._spent["testbed"],
            apply_s=self._spent["apply"],
            workload_s=self._spent["workload"],
        )

    def unwritten(self) -> TimeUse:
        """What has come since ``written`` was last told."""
        return self.total() - self._written

    def written(self, use: TimeUse) -> None:
        """So much of it has been stored."""
        self._written += use

    def _switch(self, account: Account | None) -> Account | None:
        now = self.clock()
        if self._current is not None:
            self._spent[self._current] += now - self._since
        outer, self._current, self._since = self._current, account, now
        return outer
