"""A log-linear latency histogram: bounded relative error, cheap to merge.

Values below 128 ns have one bucket each; above that, every power of two is split into 64 equal
buckets, so the width of a bucket is at most 1/64 of its value (the scheme of HdrHistogram,
G. Tene).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

_BITS = 6
_LINEAR = 1 << _BITS


def bucket_of(value_ns: int) -> int:
    """Return the bucket of a duration in nanoseconds (not negative)."""
    shift = max(0, value_ns.bit_length() - _BITS - 1)
    return shift * _LINEAR + (value_ns >> shift)


def bounds_of(bucket: int) -> tuple[int, int]:
    """Return the smallest and the largest duration of a bucket, in nanoseconds."""
    shift = max(0, bucket // _LINEAR - 1)
    low = (bucket - shift * _LINEAR) << shift
    return low, low + (1 << shift) - 1


@dataclass
class Histogram:
    """Counts of operation durations; ``max_ns`` and ``sum_ns`` are exact."""

    counts: Counter[int] = field(default_factory=Counter)
    max_ns: int = 0
    sum_ns: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def add(self, durations_ns: Iterable[int]) -> None:
        """Count each duration (nanoseconds)."""
        for duration in durations_ns:
            self.counts[bucket_of(duration)] += 1
            self.sum_ns += duration
            self.max_ns = max(self.max_ns, duration)

    def merge(self, other: Histogram) -> None:
        """Add the counts of the other histogram, as if its durations had been added here."""
        self.counts.update(other.counts)
        self.sum_ns += other.sum_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    def quantile_ns(self, share: float) -> float:
        """Return the duration that ``share`` of the operations did not exceed, in nanoseconds.

        This is the midpoint of the bucket of the ceil(share n)-th smallest duration, capped at the
        maximum. Raises ValueError when the histogram is empty.
        """
        if not self.counts:
            raise ValueError("a quantile of an empty histogram")
        rank = max(1, ceil(share * self.total))
        total = 0
        for bucket in sorted(self.counts):
            total += self.counts[bucket]
            if total >= rank:
                low, high = bounds_of(bucket)
                return min((low + high) / 2, float(self.max_ns))
        return float(self.max_ns)
