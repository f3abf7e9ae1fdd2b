"""Open loop: operations start when they are due, and lateness counts as latency."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.workloads.conftest import Engine
from workloads import parse
from workloads.content import Content
from workloads.plan import plan_stage
from workloads.worker import Worker


def _paced(mapping: dict[str, Any], rate_per_s: float) -> dict[str, Any]:
    mapping["stages"][1]["phases"][1]["rate_per_s"] = rate_per_s
    return mapping


@pytest.mark.slow
def test_a_rate_holds_the_operations_back(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    own = engine(**_paced(mapping, 100.0))
    assert own.run("write").status == 0
    meta = own.run("read").document["components"]["meta"]
    # Twenty stats, one every 10 ms, the last at 190 ms; its other phases are not paced.
    assert meta["wall_s"] >= 0.19
    assert meta["asked_s"] == pytest.approx(0.2)
    # For most of that time no operation was pending, so it is not part of the elapsed time.
    stats = meta["by_operation"]["stat"]
    assert stats["operations"] == 20
    assert meta["elapsed_s"] < meta["wall_s"]


@pytest.mark.slow
def test_without_a_rate_there_is_no_asked_time(engine: Callable[..., Engine]) -> None:
    own = engine()
    components = own.run("write").document["components"]
    for component in components.values():
        assert component["elapsed_s"] == component["wall_s"]
        assert "asked_s" not in component


def test_lateness_is_latency(mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """In simulated time: operations of 3 ms, due every millisecond, fall further behind."""
    mapping["processes"] = 1
    spec = parse(_paced(mapping, 1000.0))
    plan = plan_stage(spec, 1, 7)
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    worker = Worker(0, spec, 1, plan, Content(7, "run"), "/nowhere", 7, "run")

    def lasting(index: int) -> None:
        now[0] += 3_000_000

    worker._acts = [(lasting, index) for index in range(4)]
    worker._run_paced(0.001)
    assert worker._durations_ns == [3_000_000, 5_000_000, 7_000_000, 9_000_000]


def test_a_timer_that_is_late_is_no_latency(
    mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = parse(_paced(mapping, 1000.0))
    plan = plan_stage(spec, 1, 7)
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += round(seconds * 1e9) + 100_000

    def lasting(index: int) -> None:
        now[0] += 1_000

    monkeypatch.setattr(time, "sleep", sleep)
    worker = Worker(0, spec, 1, plan, Content(7, "run"), "/nowhere", 7, "run")
    worker._acts = [(lasting, 0)] * 3
    worker._run_paced(0.002)
    assert worker._durations_ns == [1_000] * 3


def test_processes_take_turns(mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse(_paced(mapping, 1000.0))
    plan = plan_stage(spec, 1, 7)
    now, starts = [0], []
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += round(seconds * 1e9)

    monkeypatch.setattr(time, "sleep", sleep)
    for number in range(2):
        now[0] = 0
        worker = Worker(number, spec, 1, plan, Content(7, "run"), "/nowhere", 7, "run")
        worker._acts = [(lambda index: starts.append(now[0]), 0)] * 3
        worker._run_paced(0.002)
    assert [start // 1_000_000 for start in starts] == [0, 2, 4, 1, 3, 5]
