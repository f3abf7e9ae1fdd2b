"""Accounting of a run's wall time: every second has one account; the rest is fstune's overhead.

A run on several testbeds has one ledger for each. While they measure at once, the busiest one
counts: its elapsed time is that of the run, and what it does is how the run uses its time. That
others wait for it, or are lost, is no overhead of fstune.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

    ``meet``: call it when all of them have waited for each other. ``at_meeting`` is called then.
    """

    def __init__(
        self, clocks: Sequence[Callable[[], float]], at_meeting: Callable[[], None] = lambda: None
    ) -> None:
        self._clocks = clocks
        self._at_meeting = at_meeting
        self._before_s = 0.0
        self._since = [clock() for clock in clocks]

    def __call__(self) -> float:
        passed = (now() - since for now, since in zip(self._clocks, self._since, strict=True))
        return self._before_s + max(passed)

    def meet(self) -> None:
        self._before_s = self()
        self._since = [clock() for clock in self._clocks]
        self._at_meeting()


@dataclass(frozen=True, slots=True)
class _Meeting:
    """The last time that all testbeds had waited for each other: the time use of the run up to
    then, and the seconds in each of the ledgers.
    """

    use: TimeUse
    each: tuple[TimeUse, ...]


class Ledgers:
    """The ledgers of a run, one for each testbed. Totals may be read from any thread."""

    def __init__(self, clocks: Sequence[Callable[[], float]]) -> None:
        self.elapsed = Elapsed(clocks, self._meet)
        self.each = [Ledger(clock) for clock in clocks]
        self.run = Ledger(self.elapsed)
        self._meeting = _Meeting(TimeUse(), (TimeUse(),) * len(clocks))
        self._stored_use = TimeUse()
        self._lock = threading.Lock()

    def total(self) -> TimeUse:
        """Return the time use so far, without the time of accounts that are still open."""
        measuring = self._measuring()
        return TimeUse(
            wall_s=self.run.total().wall_s,
            testbed_s=self.run.seconds_on("testbed"),
            apply_s=measuring.apply_s,
            workload_s=measuring.workload_s,
        )

    @contextmanager
    def writing(self) -> Iterator[TimeUse]:
        """Yield the time use since the last time this completed without an error."""
        with self._lock:
            use = self.total() - self._stored_use
            yield use
            self._stored_use += use

    def _measuring(self) -> TimeUse:
        """The time of the busiest testbed since each meeting."""
        last = self._meeting
        now = (
            self._now(ledger) - before for ledger, before in zip(self.each, last.each, strict=True)
        )
        return last.use + max(now, key=lambda use: use.apply_s + use.workload_s)

    def _meet(self) -> None:
        self._meeting = _Meeting(self._measuring(), tuple(map(self._now, self.each)))

    def _now(self, ledger: Ledger) -> TimeUse:
        return TimeUse(apply_s=ledger.seconds_on("apply"), workload_s=ledger.seconds_on("workload"))
