"""The Mersenne Twister with the seeding of its authors' 1999 release, as postmark uses it.

The generator itself is Python's, which uses the same algorithm (M. Matsumoto and T. Nishimura,
1998); only the derivation of its 624 words from a seed differs from Python's. Each word is composed
of the upper halves of two successive numbers of the generator x -> 69069 x + 1 modulo 2^32.
"""

from __future__ import annotations

import random

_WORDS = 624
_MASK = 0xFFFFFFFF


class Twister:
    """The 32-bit numbers of that generator."""

    def __init__(self, seed: int) -> None:
        words = []
        for _ in range(_WORDS):
            high = seed & 0xFFFF0000
            seed = (69069 * seed + 1) & _MASK
            words.append(high | seed >> 16)
            seed = (69069 * seed + 1) & _MASK
        self._generator = random.Random()
        self._generator.setstate((3, (*words, _WORDS), None))

    def below(self, limit: int) -> int:
        """Return the next number modulo ``limit``; 0, without drawing, when ``limit`` is 0."""
        return self._generator.getrandbits(32) % limit if limit > 0 else 0

    def skip(self, count: int) -> None:
        """Skip ``count`` numbers."""
        # Bits are taken from whole 32-bit numbers, so this is equivalent to drawing them singly.
        while count > 0:
            some = min(count, 1 << 16)
            self._generator.getrandbits(32 * some)
            count -= some
