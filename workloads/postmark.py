"""Plans postmark's work with the same draws in the same order, so with its exact counts and sizes.

Derived from the behaviour of postmark 1.51 to 1.53 (J. Katcher, Network Appliance): there is a
table of twice as many slots as files; a file's directory and length are drawn when it is created;
slots are drawn until one is in use; an append has 1 to (maximum length - length) bytes; a
transaction is a read or an append followed by a create or a delete. Before all that, postmark fills
a buffer of twice the maximum length with random characters. Here the data is the engine's own,
which can be verified, and writes wait until it is stored.
"""

from __future__ import annotations

import random

from workloads.files import SET_STRIDE, PlannedFile
from workloads.population import Population
from workloads.sizes import Uniform
from workloads.steps import Step

_TENTHS = 10
_WORDS = 624
_MASK = 0xFFFFFFFF


class Postmark:
    """One run of postmark over a file set that has postmark settings."""

    def __init__(self, population: Population) -> None:
        fileset = population.fileset
        assert fileset.postmark is not None
        assert isinstance(fileset.sizes, Uniform)
        self._population = population
        self._rules = fileset.postmark
        self._least, self._most = fileset.sizes.min_bytes, fileset.sizes.max_bytes
        self._draw = MersenneTwister(self._rules.seed)
        self._draw.skip(2 * self._most)
        self._slots: list[int | None] = [None] * (2 * fileset.files)
        self._allocated = 0
        self._created = 0

    def steps(self, operation: str) -> list[Step]:
        """Return the steps of one of postmark's three phases, which must be called in order."""
        if operation == "postmark-create":
            return [self._create() for _ in range(self._population.fileset.files)]
        if operation == "postmark-transactions":
            steps: list[Step] = []
            for _ in range(self._rules.transactions):
                if not self._population.files:
                    break
                steps.extend(self._transaction())
            return steps
        return [
            self._delete(slot) for slot, file_id in enumerate(self._slots) if file_id is not None
        ]

    def _transaction(self) -> list[Step]:
        below, steps = self._draw.below, []
        if below(_TENTHS) < self._rules.read_bias:
            steps.append(
                self._population.read(self._population.files[self._file(self._used_slot())])
            )
        else:
            file = self._population.files[self._file(self._used_slot())]
            room = self._most - file.image.size_bytes
            if room > 0:
                steps.append(self._population.append(file, below(room) + 1))
        if below(_TENTHS) >= self._rules.create_bias:
            steps.append(self._delete(self._used_slot()))
        elif None in self._slots:
            steps.append(self._create())
        return steps

    def _create(self) -> Step:
        slot = self._allocated
        if slot >= len(self._slots) or self._slots[slot] is not None:
            slot = self._slots.index(None)
        self._allocated = slot + 1
        directories = self._population.fileset.directories
        directory = self._draw.below(directories) if directories > 1 else 0
        size = self._least + self._draw.below(self._most - self._least)
        self._created += 1
        file_id = self._population.fileset.index * SET_STRIDE + self._created
        file = PlannedFile(file_id, directory, size)
        self._slots[slot] = file.file_id
        return self._population.create(file)

    def _delete(self, slot: int) -> Step:
        step = self._population.unlink(self._population.files[self._file(slot)])
        self._slots[slot] = None
        return step

    def _used_slot(self) -> int:
        while True:
            slot = self._draw.below(len(self._slots))
            if self._slots[slot] is not None:
                return slot

    def _file(self, slot: int) -> int:
        file_id = self._slots[slot]
        assert file_id is not None
        return file_id


class MersenneTwister:
    """The Mersenne Twister with the seeding of its authors' 1999 release, as postmark uses it.

    The generator itself is Python's, which uses the same algorithm (M. Matsumoto and T. Nishimura,
    1998); only the derivation of its 624 words from a seed differs from Python's. Each word is
    composed of the upper halves of two successive numbers of the generator x -> 69069 x + 1 modulo
    2^32.
    """

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
        # Bits are taken from whole 32-bit numbers, so this is equivalent to drawing them singly.
        while count > 0:
            some = min(count, 1 << 16)
            self._generator.getrandbits(32 * some)
            count -= some
