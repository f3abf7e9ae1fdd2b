"""Differences between two readings of counters."""

from __future__ import annotations

from tuner.measure.diagnostics.sample import Sample, difference


def test_counters_are_subtracted() -> None:
    before, after = Sample("a", {"x": 3.0, "y": 1.0}), Sample("a", {"x": 5.0, "y": 1.0})
    assert difference(before, after) == {"x": 2.0, "y": 0.0}


def test_a_new_life_counts_from_zero() -> None:
    assert difference(Sample("a", {"x": 9.0}), Sample("b", {"x": 4.0})) == {"x": 4.0}


def test_meaningless_counters_are_omitted() -> None:
    before = Sample("a", {"shrunk": 9.0, "gone": 1.0})
    after = Sample("a", {"shrunk": 4.0, "new": 7.0})
    assert difference(before, after) == {}
    assert difference(None, after) == {}


def test_gauges_are_not_counted() -> None:
    assert difference(Sample("a", {}, {"peak": 1.0}), Sample("a", {}, {"peak": 5.0})) == {}
