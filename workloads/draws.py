"""A stream of random numbers that depends only on seed and labels, whatever the Python version."""

from __future__ import annotations

import hashlib
from array import array

from workloads.files import derive

_BLOCK = 512
_MASK_BITS = 53


class Draws:
    """Numbers from SHAKE-256 in counter mode, 64 bits each."""

    def __init__(self, seed: int, *labels: object) -> None:
        self._key = derive(seed, "draws", *labels)
        self._counter = 0
        self._words: array[int] = array("Q")

    def word(self) -> int:
        """Return the next 64-bit word."""
        if not self._words:
            key = self._key + self._counter.to_bytes(8, "little")
            self._words = array("Q", hashlib.shake_256(key).digest(8 * _BLOCK))
            self._counter += 1
        return self._words.pop()

    def below(self, limit: int) -> int:
        """Return an integer in 0..limit-1 (limit above 0)."""
        return (self.word() * limit) >> 64

    def unit(self) -> float:
        """Return a number between 0 and 1, both excluded."""
        return ((self.word() >> (64 - _MASK_BITS)) + 0.5) / (1 << _MASK_BITS)

    def one_of(self, weights: tuple[float, ...]) -> int:
        """Return an index, drawn with probability proportional to its weight."""
        point = self.unit() * sum(weights)
        for index, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return index
        return len(weights) - 1
