"""The best configuration of a surface: the truth is known, so it can be searched without noise."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple, Protocol

from search_spaces import Kind, Parameter, Space
from tuner.judge.score import margin
from tuner.model import Configuration, Value
from tuner.services.simulated import Condition, World

#: Values of one parameter that are tried along its scale, when it is changed alone and in pairs.
_FINE, _COARSE = 41, 7
_STARTS = 8
_HALVINGS = 16
_LESS = 1e-9

#: What a parameter may be set to, by qualified name; None for leaving it to the program.
_Choices = Mapping[str, Sequence[Value | None]]
_Change = tuple[tuple[str, Value | None], ...]


class Truth(NamedTuple):
    """What is true of a configuration: log ratios of time to the baseline, below 0 for faster.

    ``score``: of all components together, by weight; ``components``: of each.
    """

    score: float
    components: Mapping[str, float]

    def keeps(self, floor: float) -> bool:
        """Whether no component loses more than ``floor`` (.05 = 5% slower)."""
        return all(log <= margin(floor) + 1e-12 for log in self.components.values())


class SurfaceWithTruth(Protocol):
    """A simulated service whose truth can be asked for; see ``Surface``."""

    @property
    def spaces(self) -> Mapping[str, Space]:
        """The search spaces by part."""
        ...

    @property
    def world(self) -> World:
        """Its effects."""
        ...

    @property
    def baseline(self) -> Configuration:
        """The configuration as found."""
        ...

    def truth(self, configuration: Configuration) -> Truth:
        """How fast a configuration truly is."""
        ...

    def feasible(self, configuration: Configuration) -> bool:
        """Whether a configuration is valid and runs."""
        ...


def best_configuration(surface: SurfaceWithTruth, floor: float) -> tuple[Configuration, float]:
    """The fastest valid configuration that runs and keeps the floor, and its true log score.

    Changes one parameter at a time, then two, until nothing is faster, from several starts. Every
    place where an effect begins or ends is tried, a grid between, and what is ever nearer to the
    best. Parameters without an effect are tried too: others may be bounded by them.
    """
    fine, coarse = _choices(surface, _FINE), _choices(surface, _COARSE)
    search, chance = _Search(surface, floor), random.Random(0)
    best = search.alone(surface.baseline, fine)
    for _ in range(_STARTS):
        start = _changed(surface.baseline, [(name, chance.choice(coarse[name])) for name in coarse])
        if search.score(start) is not None:
            best = min(best, search.alone(start, fine), key=search.known_score)
    while True:
        better = search.closer(search.alone(search.pairs(best, coarse), fine))
        if better == best:
            break
        best = better
    best = search.plainest(best, surface.baseline)
    return best, search.known_score(best)


class _Search:
    """Looks for faster configurations, and remembers which are valid."""

    def __init__(self, surface: SurfaceWithTruth, floor: float) -> None:
        self._surface = surface
        self._floor = floor
        self._valid: dict[Configuration, bool] = {}

    def score(self, configuration: Configuration, under: float = math.inf) -> float | None:
        """The true score of a configuration that runs and keeps the floor, if it is under a limit;
        else None.
        """
        truth = self._surface.truth(configuration)
        if truth.score >= under or not truth.keeps(self._floor):
            return None
        if configuration not in self._valid:
            self._valid[configuration] = self._surface.feasible(configuration)
        return truth.score if self._valid[configuration] else None

    def known_score(self, configuration: Configuration) -> float:
        """The true score of a configuration of which it is known that it counts."""
        return self._surface.truth(configuration).score

    def alone(self, configuration: Configuration, choices: _Choices) -> Configuration:
        """Change one parameter after the other while that is faster."""
        return self._improved(
            configuration, [((name, value),) for name in choices for value in choices[name]]
        )

    def closer(self, configuration: Configuration) -> Configuration:
        """Move every number by ever smaller steps while that is faster."""
        for name, value in configuration:
            component, _, own = name.partition(".")
            parameter = self._surface.spaces[component][own]
            if isinstance(value, str | bool) or not parameter.searched:
                continue
            for halvings in range(1, _HALVINGS):
                step = _step(parameter, value, 0.5**halvings)
                steps = [
                    ((name, moved),)
                    for moved in (value - step, value + step)
                    if step and parameter.low <= moved <= parameter.high
                ]
                configuration = self._improved(configuration, steps)
                moved_to = configuration.as_dict()[name]
                assert isinstance(moved_to, int)
                value = moved_to
        return configuration

    def pairs(self, configuration: Configuration, choices: _Choices) -> Configuration:
        """Change two parameters at a time while that is faster."""
        changes = [
            ((one, x), (other, y))
            for one, other in combinations(choices, 2)
            for x, y in product(choices[one], choices[other])
        ]
        return self._improved(configuration, changes)

    def plainest(self, configuration: Configuration, baseline: Configuration) -> Configuration:
        """The same without what makes no difference."""
        for name in sorted(configuration.as_dict().keys() - baseline.as_dict().keys()):
            without = _changed(configuration, [(name, None)])
            if self.score(without, under=self.known_score(configuration) + _LESS) is not None:
                configuration = without
        return configuration

    def _improved(self, configuration: Configuration, changes: Sequence[_Change]) -> Configuration:
        best, improved = self.known_score(configuration), True
        while improved:
            improved = False
            for change in changes:
                other = _changed(configuration, change)
                score = self.score(other, under=best - _LESS)
                if score is not None:
                    configuration, best, improved = other, score, True
        return configuration


def _changed(
    configuration: Configuration, change: Iterable[tuple[str, Value | None]]
) -> Configuration:
    values = configuration.as_dict()
    for name, value in change:
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
    return Configuration.of(values)


def _choices(surface: SurfaceWithTruth, count: int) -> dict[str, list[Value | None]]:
    """What is tried of every searched parameter."""
    places: dict[str, set[Value]] = {}
    for effect in surface.world.effects:
        own = Condition(effect.parameter, effect.low, effect.high, effect.value)
        places.setdefault(effect.parameter, set()).add(round(effect.at))
        for condition in (own, *effect.when):
            places.setdefault(condition.parameter, set()).update(_ends(condition))
    choices: dict[str, list[Value | None]] = {}
    for component, space in surface.spaces.items():
        for parameter in space.searched:
            name = f"{component}.{parameter.name}"
            choices[name] = [None, *_values(parameter, places.get(name, set()), count)]
    return choices


def _step(parameter: Parameter, value: int, share: float) -> int:
    """A share of the way along a parameter's scale, from a value on; 0 when there is none."""
    if parameter.kind is Kind.LOG_INT:
        whole = math.log(parameter.high / parameter.low)
        return round(value * math.expm1(whole * share))
    return (
        0
        if parameter.kind is Kind.POWER_OF_TWO
        else round((parameter.high - parameter.low) * share)
    )


def _ends(condition: Condition) -> Iterator[Value]:
    """Where a condition begins and ends to hold; an end may be in its range or just outside."""
    for end in (condition.low, condition.high):
        if math.isfinite(end):
            yield from (round(end) - 1, round(end), round(end) + 1)
    if condition.value is not None:
        yield condition.value


def _values(parameter: Parameter, places: set[Value], count: int) -> list[Value]:
    if parameter.kind is Kind.BOOLEAN:
        return [True, False]
    if parameter.kind is Kind.CATEGORICAL:
        return list(parameter.candidates)
    low, high = parameter.low, parameter.high
    if parameter.kind is Kind.POWER_OF_TWO:
        return [1 << place for place in range(low.bit_length() - 1, high.bit_length())]
    shares = [step / (count - 1) for step in range(count)]
    if parameter.kind is Kind.LOG_INT:
        grid = {round(low * (high / low) ** share) for share in shares}
    else:
        grid = {round(low + (high - low) * share) for share in shares}
    inside = {int(p) for p in places if not isinstance(p, str | bool) and low <= p <= high}
    return sorted(grid | inside)
