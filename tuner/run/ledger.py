"""Accounting of a run's wall time: every second is charged to one account, and the rest is fstune's
own overhead.

A run on several testbeds has one ledger for each. Its time use is the mean over the ledgers, and
its elapsed time is that of the slowest testbed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from tuner.time_use import TimeUse

Account = Literal["testbed", "apply", "workload"]


class Ledger:
    """Sums up time by account. Accounts do not overlap: an inner one interrupts the outer one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._began = clock()
        self._seconds: dict[Account, float] = {"testbed": 0.0, "apply": 0.0, "workload": 0.0}
        self._current: Account | None = None
        self._since = self._began

    @contextmanager
    def on(self, account: Account | None) -> Iterator[None]:
        """Charge the time of this block to ``account``; None for fstune's own overhead."""
        outer = self._switch(account)
        try:
            yield
        finally:
            self._switch(outer)

    def seconds_on(self, account: Account) -> float:
        """Seconds charged to ``account`` so far, without the time of a block that is still open."""
        return self._seconds[account]

    def total(self) -> TimeUse:
        """Return the time use so far."""
        self._switch(self._current)
        return TimeUse(
            wall_s=self.clock() - self._began,
            testbed_s=self._seconds["testbed"],
            apply_s=self._seconds["apply"],
            workload_s=self._seconds["workload"],
        )

    def _switch(self, account: Account | None) -> Account | None:
        now = self.clock()
        if self._current is not None:
            self._seconds[self._current] += now - self._since
        outer, self._current, self._since = self._current, account, now
        return outer


class Elapsed:
    """Clock for concurrent activity in several places: the slowest one counts.

    ``meet``: call it when all of them have waited for each other.
    """

    def __init__(self, clocks: Sequence[Callable[[], float]]) -> None:
        self._clocks = clocks
        self._before_s = 0.0
        self._since = [clock() for clock in clocks]

    def __call__(self) -> float:
        passed = (now() - since for now, since in zip(self._clocks, self._since, strict=True))
        return self._before_s + max(passed)

    def meet(self) -> None:
        self._before_s = self()
        self._since = [clock() for clock in self._clocks]


class Ledgers:
    """The ledgers of a run, one for each testbed. Totals may be read from any thread."""

    def __init__(self, clocks: Sequence[Callable[[], float]]) -> None:
        self.elapsed = Elapsed(clocks)
        self.each = [Ledger(clock) for clock in clocks]
        self.run = Ledger(self.elapsed)
        self._stored_use = TimeUse()
        self._lock = threading.Lock()

    def total(self) -> TimeUse:
        """Return the time use so far, without the time of accounts that are still open."""
        return TimeUse(
            wall_s=self.run.total().wall_s,
            testbed_s=self.run.seconds_on("testbed"),
            apply_s=self._mean("apply"),
            workload_s=self._mean("workload"),
        )

    @contextmanager
    def writing(self) -> Iterator[TimeUse]:
        """Yield the time use since the last time this completed without an error."""
        with self._lock:
            use = self.total() - self._stored_use
            yield use
            self._stored_use += use

    def _mean(self, account: Account) -> float:
        return sum(ledger.seconds_on(account) for ledger in self.each) / len(self.each)
