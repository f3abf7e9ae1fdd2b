"""File-size distributions, as quantile functions.

A file set of n files takes the sizes at the quantiles (i + 1/2) / n, so that the amount of work is
the same for every seed: the seed only decides which file gets which size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

from workloads.fields import Fields, SpecError

MAX_FILE_BYTES = 1 << 40


class Sizes(Protocol):
    """A distribution of file sizes."""

    def quantile(self, probability: float) -> int:
        """Return the size in bytes below which that share of the files lies (0 < p < 1)."""

    @property
    def most(self) -> int:
        """The largest possible size."""


@dataclass(frozen=True)
class Fixed:
    """Every file has the same size."""

    size_bytes: int

    def quantile(self, probability: float) -> int:
        return self.size_bytes

    @property
    def most(self) -> int:
        return self.size_bytes


@dataclass(frozen=True)
class Uniform:
    """Sizes spread evenly over min_bytes..max_bytes."""

    min_bytes: int
    max_bytes: int

    def quantile(self, probability: float) -> int:
        """Return min + p (max - min), rounded."""
        return self.min_bytes + round(probability * (self.max_bytes - self.min_bytes))

    @property
    def most(self) -> int:
        return self.max_bytes


@dataclass(frozen=True)
class LogNormal:
    """ln(size) is normal around ln(median_bytes) with deviation sigma, clipped to min..max."""

    median_bytes: int
    sigma: float
    min_bytes: int
    max_bytes: int

    def quantile(self, probability: float) -> int:
        """Return median exp(sigma z_p), rounded and clipped; z_p: standard normal quantile."""
        size = self.median_bytes * math.exp(self.sigma * NormalDist().inv_cdf(probability))
        return min(self.max_bytes, max(self.min_bytes, round(size)))

    @property
    def most(self) -> int:
        return self.max_bytes


@dataclass(frozen=True)
class Table:
    """Buckets (least bytes, most bytes, weight), ascending; sizes are uniform within each."""

    buckets: tuple[tuple[int, int, float], ...]

    def quantile(self, probability: float) -> int:
        """Return the size within a bucket at which the cumulative weight reaches p, rounded."""
        remaining = probability * math.fsum(weight for _, _, weight in self.buckets)
        for low, high, weight in self.buckets:
            if remaining < weight:
                return low + round(remaining / weight * (high - low))
            remaining -= weight
        return self.most

    @property
    def most(self) -> int:
        return self.buckets[-1][1]


def parse_sizes(fields: Fields) -> Sizes:
    """Return the distribution that the mapping describes.

    ``{distribution: fixed, bytes}``, ``{distribution: uniform, min_bytes, max_bytes}``,
    ``{distribution: log-normal, median_bytes, sigma, min_bytes, max_bytes}`` or
    ``{distribution: table, buckets: [[least bytes, most bytes, weight], ...]}``. Raises SpecError.
    """
    kind = fields.choice("distribution", ("fixed", "uniform", "log-normal", "table"))
    if kind == "table":
        table = Table(tuple(_bucket(key, item) for key, item in fields.items("buckets")))
        fields.refuse_unknown()
        for number, (one, other) in enumerate(zip(table.buckets, table.buckets[1:]), 1):
            if one[1] > other[0]:
                raise SpecError(f"{fields.path('buckets')}[{number}]", "overlaps the one before it")
        return table
    if kind == "fixed":
        fixed = Fixed(fields.integer("bytes", 0, MAX_FILE_BYTES))
        fields.refuse_unknown()
        return fixed
    low = fields.integer("min_bytes", 0, MAX_FILE_BYTES)
    high = fields.integer("max_bytes", 0, MAX_FILE_BYTES)
    if low > high:
        raise SpecError(fields.path("min_bytes"), f"is above max_bytes ({low} > {high})")
    if kind == "uniform":
        fields.refuse_unknown()
        return Uniform(low, high)
    median = fields.integer("median_bytes", max(1, low), high)
    sigma = fields.number("sigma", 0.0, 10.0)
    fields.refuse_unknown()
    return LogNormal(median, sigma, low, high)


def _bucket(key: str, item: object) -> tuple[int, int, float]:
    if not isinstance(item, list) or len(item) != 3:
        raise SpecError(key, "must be a list of least bytes, most bytes and weight")
    fields = Fields({"least": item[0], "most": item[1], "weight": item[2]}, key)
    low = fields.integer("least", 0, MAX_FILE_BYTES)
    high = fields.integer("most", low, MAX_FILE_BYTES)
    return low, high, fields.number("weight", 1e-6, 1e6)


def spread(sizes: Sizes, files: int) -> tuple[int, ...]:
    """Return the sizes in bytes of ``files`` files, ascending; the same for every seed."""
    return tuple(sizes.quantile((rank + 0.5) / files) for rank in range(files))
