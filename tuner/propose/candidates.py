"""Candidate configurations: drawn at random, or variations of promising ones. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from search_spaces import Chance, Fitter, Risk, Sampler
from tuner.model import Configuration, Value
from tuner.propose.encoding import Tunable

#: Probability that a configuration drawn at random sets a parameter.
_SET = 0.4
#: Maximum number of parameters that a variation takes from another configuration.
_MOST_CHANGED = 3


class Candidates:
    """Generates valid configurations of several parts together, deterministically by seed."""

    def __init__(self, tunables: Mapping[str, Tunable], seed: str) -> None:
        self._tunables = tunables
        self._random = random.Random(seed)
        self._samplers = {
            part: Sampler(t.space, t.facts, t.baseline) for part, t in tunables.items()
        }
        self._fitters = {part: Fitter(t.space, t.facts, t.baseline) for part, t in tunables.items()}
        self._adapted: dict[tuple[str, frozenset[tuple[str, Value]]], dict[str, Value]] = {}
        self._searched = [
            f"{part}.{p.name}" for part, t in tunables.items() for p in t.space.searched
        ]

    def random(self, count: int) -> list[Configuration]:
        """Draw configurations at random from the entire spaces."""
        return [self._draw() for _ in range(count)]

    def changed(
        self, from_: Sequence[Configuration], donors: Sequence[Configuration], count: int
    ) -> list[Configuration]:
        """Vary each of ``from_``: a few settings are taken from one of ``donors``, or unset."""
        configurations = []
        for number in range(count):
            values = from_[number % len(from_)].as_dict()
            donor = self._random.choice(donors).as_dict()
            for name in self._random.sample(
                self._searched, min(len(self._searched), self._random.randint(1, _MOST_CHANGED))
            ):
                if name in donor:
                    values[name] = donor[name]
                else:
                    values.pop(name, None)
            configurations.append(self.valid(values))
        return configurations

    def valid(self, values: Mapping[str, Value]) -> Configuration:
        """Return the valid configuration nearest to these values."""
        values_by_name: dict[str, Value] = {}
        whole = Configuration.of(values)
        for part, fitter in self._fitters.items():
            request = whole.part(part)
            # A change leaves most parts unchanged.
            key = part, frozenset(request.items())
            if key not in self._adapted:
                own = fitter.fit(request)
                self._adapted[key] = {f"{part}.{name}": value for name, value in own.items()}
            values_by_name |= self._adapted[key]
        return Configuration.of(values_by_name)

    def risks(self, configuration: Configuration) -> set[str]:
        """Return the settings that put more than performance at risk."""
        return {
            f"{part}.{name}"
            for part, tunable in self._tunables.items()
            for name, value in configuration.part(part).items()
            if tunable.space[name].risk_of(value) is not Risk.PERFORMANCE
        }

    def _draw(self) -> Configuration:
        values: dict[str, Value] = {}
        for part, sampler in self._samplers.items():
            own = sampler.draw(Chance(self._random.randrange(2**62), _SET))
            values |= {f"{part}.{name}": value for name, value in own.items()}
        return Configuration.of(values)


def unique(configurations: Iterable[Configuration]) -> list[Configuration]:
    """Return the configurations without duplicates, in the same order."""
    return list(dict.fromkeys(configurations))
