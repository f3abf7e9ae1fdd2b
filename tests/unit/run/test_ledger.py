"""The accounts of a run's time, on one testbed or several."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tuner.run.ledger import Account, Ledgers
from tuner.time_use import TimeUse


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def work(
    ledgers: Ledgers, clocks: list[Clock], testbed: int, account: Account, seconds: float
) -> None:
    with ledgers.each[testbed].on(account):
        clocks[testbed].now += seconds


def test_one_testbed_is_charged_for_what_it_does() -> None:
    clocks = [Clock(100.0)]
    ledgers = Ledgers(clocks)
    with ledgers.run.on("testbed"):
        clocks[0].now += 5.0
    work(ledgers, clocks, 0, "apply", 2.0)
    work(ledgers, clocks, 0, "workload", 7.0)
    clocks[0].now += 1.0
    use = ledgers.total()
    assert use == TimeUse(wall_s=15.0, testbed_s=5.0, apply_s=2.0, workload_s=7.0)
    assert use.overhead_s == 1.0


def test_waiting_for_a_slower_testbed_is_no_overhead() -> None:
    clocks = [Clock() for _ in range(4)]
    ledgers = Ledgers(clocks)
    for slowest in (1, 3):
        for testbed in range(4):
            work(ledgers, clocks, testbed, "apply", 1.0)
            work(ledgers, clocks, testbed, "workload", 30.0 if testbed == slowest else 10.0)
        ledgers.elapsed.meet()
    use = ledgers.total()
    assert use == TimeUse(wall_s=62.0, apply_s=2.0, workload_s=60.0)
    assert use.overhead_share == 0.0


def test_neither_is_a_testbed_that_is_lost() -> None:
    clocks = [Clock() for _ in range(4)]
    ledgers = Ledgers(clocks)
    for _ in range(3):
        work(ledgers, clocks, 2, "workload", 10.0)
        clocks[2].now += 0.5
        ledgers.elapsed.meet()
    assert ledgers.total().overhead_s == pytest.approx(1.5)


def test_clocks_that_run_on_while_a_testbed_waits_are_no_overhead_either() -> None:
    """As on real hosts, which all share the clock of this machine."""
    clock = Clock()
    ledgers = Ledgers([clock, clock])
    with ledgers.each[0].on("workload"), ledgers.each[1].on("workload"):
        clock.now += 10.0
    with ledgers.each[1].on("workload"):
        clock.now += 20.0
    ledgers.elapsed.meet()
    assert ledgers.total() == TimeUse(wall_s=30.0, workload_s=30.0)


def test_what_is_written_adds_up_to_the_total() -> None:
    clocks = [Clock(), Clock()]
    ledgers = Ledgers(clocks)
    total = TimeUse()
    for testbed, seconds in ((0, 3.0), (1, 9.0), (0, 2.0)):
        work(ledgers, clocks, testbed, "workload", seconds)
        with ledgers.writing() as use:
            total += use
    ledgers.elapsed.meet()
    work(ledgers, clocks, 0, "workload", 4.0)
    with ledgers.writing() as use:
        total += use
    assert total == ledgers.total() == TimeUse(wall_s=13.0, workload_s=13.0)
