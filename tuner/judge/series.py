"""Sparse representation of many series of differences, most of them short.

Owns that representation and its queries, such as which blocks two series share and where series
begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import Floats, Ints, checked_differences


@dataclass(frozen=True, slots=True)
class Series:
    """Differences as entries, ordered by series and then by block.

    row, column, value: shape (entries,), the index of the series, the index of the block in the
    order measured, and the difference. size: the numbers of series and blocks.
    """

    row: Ints
    column: Ints
    value: Floats
    size: tuple[int, int]

    @classmethod
    def of(cls, differences: Sequence[float] | Sequence[Sequence[float]] | Floats) -> Self:
        """Build from NaN-padded (series, blocks), or from one series.

        Raises ValueError for infinite differences and for more than two axes.
        """
        x = np.atleast_2d(np.asarray(differences, dtype=np.float64))
        if x.ndim != 2:
            raise ValueError(f"differences must be (series, blocks), got shape {x.shape}")
        present = ~np.isnan(x)
        x = checked_differences(np.where(present, x, 0.0))
        row, column = np.nonzero(present)
        return cls(row, column, x[present], (x.shape[0], x.shape[1]))

    @classmethod
    def of_entries(cls, row: Ints, column: Ints, value: Floats, size: tuple[int, int]) -> Self:
        """Build from entries in any order. Raises ValueError for infinite differences."""
        order = np.lexsort((column, row))
        return cls(row[order], column[order], checked_differences(value)[order], size)

    def only(self, mask: NDArray[np.bool_]) -> Series:
        """Return the series selected by `mask`, shape (series,), renumbered."""
        entries = mask[self.row]
        number = np.cumsum(mask) - 1
        size = (int(mask.sum()), self.size[1])
        return Series(number[self.row[entries]], self.column[entries], self.value[entries], size)

    def with_values(self, value: Floats) -> Series:
        """Return the same entries with other values."""
        return Series(self.row, self.column, value, self.size)

    def by_testbed(self, testbed: Ints) -> Series:
        """Split each series by testbed, with all blocks of one testbed before those of the next.

        testbed: shape (blocks,), the number of each block's testbed, from 0. With several testbeds,
        neighbouring blocks are measured at the same time in different places, and the block before
        on the same testbed is further away. A series does not go on from one testbed to the next:
        a configuration may have another effect there, which is no dependence.
        """
        order = np.argsort(testbed, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        testbeds = int(testbed.max(initial=0)) + 1
        row = self.row * testbeds + testbed[self.column]
        size = (self.size[0] * testbeds, self.size[1])
        return Series.of_entries(row, place[self.column], self.value, size)

    def counts(self) -> Ints:
        """The number of entries of each series."""
        return np.bincount(self.row, minlength=self.size[0]).astype(np.int64)

    def sums(self, value: Floats) -> Floats:
        """The sum of `value`, shape (entries,), in each series."""
        sums = np.bincount(self.row, weights=value, minlength=self.size[0])
        return np.asarray(sums, dtype=np.float64)

    def together(self) -> tuple[Ints, Ints]:
        """Return the indices of all pairs of entries of the same block, including self-pairs."""
        by_block = np.argsort(self.column, kind="stable")
        sizes = np.bincount(self.column, minlength=self.size[1])
        ends = np.cumsum(sizes)
        block = self.column[by_block]
        partners = sizes[block]
        own = np.repeat(by_block, partners)
        within = np.arange(len(own)) - np.repeat(np.cumsum(partners) - partners, partners)
        right = by_block[np.repeat((ends - sizes)[block], partners) + within]
        return own, right

    def stretches(self) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        """Split the blocks into stretches, in which no series begins except at the start.

        For each stretch, yield the differences (series, blocks), 0 if not measured, and a mask of
        those that were measured; only for the series that occur in it.
        """
        if not len(self.row):
            return
        first = np.flatnonzero(np.diff(self.row, prepend=-1))
        begins = np.unique(self.column[first])
        ends = np.append(begins[1:], self.size[1])
        by_block = np.argsort(self.column, kind="stable")
        bounds = np.searchsorted(self.column[by_block], np.append(begins, self.size[1]))
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            here = by_block[bounds[number] : bounds[number + 1]]
            rows, row = np.unique(self.row[here], return_inverse=True)
            d = np.zeros((len(rows), int(end - begin)))
            there = np.zeros(d.shape, dtype=np.bool_)
            cell = (row, self.column[here] - begin)
            d[cell], there[cell] = self.value[here], True
            yield d, there


def testbed_numbers(testbeds: Sequence[str | None]) -> Ints:
    """Number the testbeds of blocks from 0, by first appearance."""
    number = {testbed: index for index, testbed in enumerate(dict.fromkeys(testbeds))}
    return np.array([number[testbed] for testbed in testbeds], np.int64)
