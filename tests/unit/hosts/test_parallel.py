"""Parallel execution on several hosts."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tests.waiting import wait_for
from tuner.hosts.parallel import on_all
from tuner.stop_signals import stop_signals


def test_results_are_in_order_and_the_first_failure_is_raised_at_the_end() -> None:
    later = threading.Event()
    ends: list[int] = []

    def square(number: int) -> int:
        if number == 1:
            later.wait(60)
        later.set()
        return number * number

    def failing(number: int) -> None:
        ends.append(number)
        raise ValueError(str(number))

    assert on_all((1, 2, 3), square) == [1, 4, 9]
    assert on_all((), square) == []
    with pytest.raises(ValueError, match="1"):
        on_all((1, 2), failing)
    assert sorted(ends) == [1, 2]


def test_no_call_is_left_behind_by_repeated_stop_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would change its host beside what restores the testbed."""
    monkeypatch.setattr("tuner.stop_signals._SAME_REQUEST_S", 0.0)
    departure = threading.Event()
    messages: list[str] = []
    ends: list[str] = []

    def change(name: str) -> None:
        if name == "a":
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for(lambda: bool(messages), "the first one")
            os.kill(os.getpid(), signal.SIGTERM)
            departure.wait(0.3)
        ends.append(name)

    with stop_signals(messages.append), pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        on_all(("a", "b"), change)
    assert set(ends) == {"a", "b"}
    departure.set()
