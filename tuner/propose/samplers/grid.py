"""Every combination of a few values of each parameter, in an order shuffled by the seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from search_spaces import Kind, Parameter
from tuner.model import Configuration, Value
from tuner.propose.candidates import Candidates
from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Observation, Proposal

#: Values of a parameter with a range, evenly spaced on its own scale.
_LEVELS = 4
#: Combinations without a new configuration, one after another, after which the grid counts as
#: exhausted: different combinations may become identical when they are made valid.
_MOST_TRIES = 200


class GridProposer:
    """Proposes the combinations one after another. It is stateless: its position follows from the
    observations.
    """

    def __init__(self, tunables: Mapping[str, Tunable], seed: int) -> None:
        self._candidates = Candidates(tunables, f"{seed}:grid")
        self._axes: list[tuple[str, list[Value | None]]] = [
            (f"{part}.{parameter.name}", _levels(parameter))
            for part, tunable in tunables.items()
            for parameter in tunable.space.searched
        ]
        self._size = math.prod(len(levels) for _, levels in self._axes)
        chance = random.Random(f"{seed}:grid")
        self._start = chance.randrange(self._size)
        self._step = _coprime(chance, self._size)

    def propose(self, count: int, observations: Sequence[Observation]) -> list[Proposal]:
        """See Proposer.propose."""
        earlier = {each.configuration for each in observations if not each.prior}
        proposals: list[Proposal] = []
        so_far: set[Configuration] = set()
        misses = 0
        for index in range(self._size):
            if len(proposals) == count or misses == _MOST_TRIES:
                break
            configuration = self._at((self._start + index * self._step) % self._size)
            misses = misses + 1 if configuration in so_far else 0
            if configuration not in so_far and configuration not in earlier:
                proposals.append(Proposal(configuration, "grid"))
            so_far.add(configuration)
        return proposals

    def _at(self, index: int) -> Configuration:
        values: dict[str, Value] = {}
        for name, levels in self._axes:
            index, at = divmod(index, len(levels))
            value = levels[at]
            if value is not None:
                values[name] = value
        return self._candidates.valid(values)


def _levels(parameter: Parameter) -> list[Value | None]:
    """Return None for "not set", then a few values."""
    if parameter.kind is Kind.BOOLEAN:
        return [None, True]
    if parameter.kind is Kind.CATEGORICAL:
        return [None, *parameter.candidates]
    low, high = parameter.low, parameter.high
    logarithmic = parameter.kind in (Kind.LOG_INT, Kind.POWER_OF_TWO)
    shares = [index / (_LEVELS - 1) for index in range(_LEVELS)]
    if logarithmic and low > 0:
        values = [round(low * (high / low) ** share) for share in shares]
    else:
        values = [round(low + (high - low) * share) for share in shares]
    if parameter.kind is Kind.POWER_OF_TWO:
        values = [1 << (value.bit_length() - 1) for value in values]
    return [None, *dict.fromkeys(values)]


def _coprime(chance: random.Random, size: int) -> int:
    """Return a step that visits every position of a ring of this size."""
    step = chance.randrange(1, size) if size > 1 else 1
    while math.gcd(step, size) != 1:
        step += 1
    return step
