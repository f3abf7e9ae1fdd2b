"""The histogram has a bounded error, and merging two equals counting into one."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.histogram import Histogram, bounds_of, bucket_of

DURATIONS = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


def _of(durations: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.add(durations)
    return histogram


@given(st.integers(0, 10**15))
def test_a_bucket_holds_its_durations_and_is_narrow(duration: int) -> None:
    low, high = bounds_of(bucket_of(duration))
    assert low <= duration <= high
    assert high - low <= duration / 64


def test_buckets_follow_each_other_without_gap() -> None:
    for bucket in range(2000):
        assert bounds_of(bucket)[1] + 1 == bounds_of(bucket + 1)[0]
        assert bucket_of(bounds_of(bucket)[0]) == bucket == bucket_of(bounds_of(bucket)[1])


@pytest.mark.slow
@given(DURATIONS, DURATIONS)
def test_merging_is_counting_together(one: list[int], other: list[int]) -> None:
    merged = _of(one)
    merged.merge(_of(other))
    assert merged == _of(one + other)


@given(DURATIONS, st.floats(0.0, 1.0))
def test_a_quantile_is_within_a_bucket_of_the_true_one(durations: list[int], share: float) -> None:
    true = sorted(durations)[max(1, ceil(share * len(durations))) - 1]
    quantile = _of(durations).quantile_ns(share)
    assert abs(quantile - true) <= true / 64
    assert quantile <= max(durations)


def test_an_empty_histogram_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="empty"):
        Histogram().quantile_ns(0.5)
