"""Find the best configuration of a surface: its truth is known, so the search is noise-free."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple, Protocol

from search_spaces import Chance, Kind, Parameter, Space, draw
from tuner.judge.score import margin
from tuner.measure.workload import Workload
from tuner.model import Configuration, Value
from tuner.services.simulated import Condition, Effect, World
from tuner.services.simulated.testbed import FACTS

#: Number of values tried along a parameter's scale, when it is changed alone and in pairs.
_FINE, _COARSE = 41, 7
#: Numbers of starts besides the baseline: values chosen at random, and draws from the spaces.
_STARTS, _DRAWS = 8, 16
#: How many of the best of them are improved by changes of two parameters as well.
_CLIMBS = 2
_HALVINGS = 16
_LESS = 1e-9

#: Candidate values of each parameter, by qualified name; None for the program's default.
_Choices = Mapping[str, Sequence[Value | None]]
#: The share of an effect, by the values of the parameters that it depends on.
_Shares = dict[tuple[Value | None, ...], float]
_Change = tuple[tuple[str, Value | None], ...]


class Truth(NamedTuple):
    """True performance of a configuration: log time ratios to the baseline, below 0 for faster.

    ``score``: weighted over all components; ``components``: of each one.
    """

    score: float
    components: Mapping[str, float]

    def keeps(self, floor: float) -> bool:
        """Return whether no component loses more than ``floor`` (.05 = 5% slower)."""
        return all(log <= margin(floor) + 1e-12 for log in self.components.values())


class SurfaceWithTruth(Protocol):
    """A simulated service with known ground truth; see ``Surface``."""

    @property
    def spaces(self) -> Mapping[str, Space]:
        """The search spaces by part."""
        ...

    @property
    def workload(self) -> Workload:
        """The workload, with the weights of its components."""
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
        """Return the true performance of a configuration."""
        ...

    def feasible(self, configuration: Configuration) -> bool:
        """Return whether a configuration is valid and runs."""
        ...


def best_configuration(surface: SurfaceWithTruth, floor: float) -> tuple[Configuration, float]:
    """Return the fastest valid configuration that runs and keeps the floor, and its true log score.

    Changes one parameter at a time, then two, from several starts, until nothing is faster. It
    tries every value where an effect begins or ends, a grid in between, and ever smaller steps
    around the best. A parameter without an effect is changed only together with one that has an
    effect, since it may bound that one.
    """
    fine, coarse = _choices(surface, _FINE), _choices(surface, _COARSE)
    search = _Search(surface, floor)
    tops = {
        search.alone(start, fine)
        for start in _starts(surface, coarse)
        if search.score(start) is not None
    }
    climbs = sorted(tops, key=lambda each: (search.known_score(each), each.items))[:_CLIMBS]
    # Settings that make no difference may allow others, or be in their way.
    climbs += [search.plainest(each, surface.baseline) for each in climbs]
    best = min(
        (_climbed(search, each, fine, coarse) for each in dict.fromkeys(climbs)),
        key=search.known_score,
    )
    best = search.plainest(best, surface.baseline)
    return best, search.known_score(best)


def _climbed(
    search: _Search, best: Configuration, fine: _Choices, coarse: _Choices
) -> Configuration:
    while True:
        better = search.closer(search.alone(search.pairs(best, coarse), fine))
        if better == best:
            return best
        best = better


def _starts(surface: SurfaceWithTruth, coarse: _Choices) -> Iterator[Configuration]:
    """Yield the baseline, and configurations that may be invalid, and valid ones: some gains take
    several changes at once, each of which is invalid without the others.
    """
    yield surface.baseline
    chance = random.Random(0)
    for _ in range(_STARTS):
        yield _changed(surface.baseline, [(name, chance.choice(coarse[name])) for name in coarse])
    for number in range(_DRAWS):
        values: dict[str, Value] = {}
        for part, space in surface.spaces.items():
            place = Chance(number, number / (_DRAWS - 1))
            own = draw(space, place, FACTS, surface.baseline.part(part))
            values |= {f"{part}.{name}": value for name, value in own.items()}
        yield Configuration.of(values)


class _RoughScore:
    """The true score of a configuration, up to rounding, but much sooner: the share of each effect
    is computed once for all values that it depends on.
    """

    def __init__(self, surface: SurfaceWithTruth) -> None:
        work, world = surface.workload, surface.world
        self._effects: list[tuple[Effect, tuple[str, ...], float, _Shares]] = []
        for effect, logs in zip(world.effects, world.full_effects(work.components), strict=True):
            log = sum(weight * log for weight, log in zip(work.weights, logs, strict=True))
            if not effect.fails and log != 0.0:
                self._effects.append((effect, effect.parameters, log, {}))
        self._baseline = self._total(surface.baseline.as_dict())

    def __call__(self, values: Mapping[str, Value]) -> float:
        return self._total(values) - self._baseline

    def _total(self, values: Mapping[str, Value]) -> float:
        total = 0.0
        for effect, names, log, shares in self._effects:
            key = tuple(map(values.get, names))
            share = shares.get(key)
            if share is None:
                share = shares[key] = effect.share(values)
            total += share * log
        return total


class _Search:
    """Searches for faster configurations, and caches which ones are feasible."""

    def __init__(self, surface: SurfaceWithTruth, floor: float) -> None:
        self._surface = surface
        self._floor = floor
        self._active = frozenset(_places(surface.world))
        self._valid: dict[Configuration, bool] = {}
        self._rough_score = _RoughScore(surface)

    def score(self, configuration: Configuration, under: float = math.inf) -> float | None:
        """Return the true score of a feasible configuration that keeps the floor, if it is below
        ``under``; otherwise None.
        """
        truth = self._surface.truth(configuration)
        if truth.score >= under or not truth.keeps(self._floor):
            return None
        if configuration not in self._valid:
            self._valid[configuration] = self._surface.feasible(configuration)
        return truth.score if self._valid[configuration] else None

    def known_score(self, configuration: Configuration) -> float:
        """Return the true score of a configuration that is known to be feasible."""
        return self._surface.truth(configuration).score

    def alone(self, configuration: Configuration, choices: _Choices) -> Configuration:
        """Change one parameter after another while that is faster."""
        active = [name for name in choices if name in self._active]
        return self._improved(
            configuration, [((name, value),) for name in active for value in choices[name]]
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
            if one in self._active or other in self._active
            for x, y in product(choices[one], choices[other])
        ]
        return self._improved(configuration, changes)

    def plainest(self, configuration: Configuration, baseline: Configuration) -> Configuration:
        """Remove the settings that make no difference."""
        for name in sorted(configuration.as_dict().keys() - baseline.as_dict().keys()):
            without = _changed(configuration, [(name, None)])
            if self.score(without, under=self.known_score(configuration) + _LESS) is not None:
                configuration = without
        return configuration

    def _improved(self, configuration: Configuration, changes: Sequence[_Change]) -> Configuration:
        best, improved = self.known_score(configuration), True
        while improved:
            improved = False
            values = configuration.as_dict()
            for change in changes:
                other_values = _with(values, change)
                if self._rough_score(other_values) > best - 0.5 * _LESS:
                    continue
                other = Configuration.of(other_values)
                score = self.score(other, under=best - _LESS)
                if score is not None:
                    configuration, best, improved = other, score, True
                    values = other_values
        return configuration


def _changed(
    configuration: Configuration, change: Iterable[tuple[str, Value | None]]
) -> Configuration:
    return Configuration.of(_with(configuration.as_dict(), change))


def _with(
    values: Mapping[str, Value], change: Iterable[tuple[str, Value | None]]
) -> dict[str, Value]:
    other = dict(values)
    for name, value in change:
        if value is None:
            other.pop(name, None)
        else:
            other[name] = value
    return other


def _choices(surface: SurfaceWithTruth, count: int) -> dict[str, list[Value | None]]:
    """Return the values to try for every searched parameter."""
    places = _places(surface.world)
    choices: dict[str, list[Value | None]] = {}
    for component, space in surface.spaces.items():
        for parameter in space.searched:
            name = f"{component}.{parameter.name}"
            choices[name] = [None, *_values(parameter, places.get(name, set()), count)]
    return choices


def _places(world: World) -> dict[str, set[Value]]:
    """Return the parameters that act on the score, with the values where their effects change."""
    places: dict[str, set[Value]] = {}
    for effect in world.effects:
        own = Condition(effect.parameter, effect.low, effect.high, effect.value)
        places.setdefault(effect.parameter, set()).add(round(effect.at))
        for condition in (own, *effect.when):
            places.setdefault(condition.parameter, set()).update(_ends(condition))
    return places


def _step(parameter: Parameter, value: int, share: float) -> int:
    """Return a step from ``value`` by a share of the parameter's scale; 0 if there is none."""
    if parameter.kind is Kind.LOG_INT:
        whole = math.log(parameter.high / parameter.low)
        return round(value * math.expm1(whole * share))
    return (
        0
        if parameter.kind is Kind.POWER_OF_TWO
        else round((parameter.high - parameter.low) * share)
    )


def _ends(condition: Condition) -> Iterator[Value]:
    """Yield the values around the ends of a condition; an end may be inside or just outside it."""
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
