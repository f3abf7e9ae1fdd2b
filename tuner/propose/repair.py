"""Changes that may repair a configuration which gains but breaks the floor of a component. Pure.

A setting that hurts one component when it is set alone may gain along with another one. The model
cannot know of such a pair before both values have been measured together, and rates every
configuration with the harmful setting as infeasible. So combinations are tried systematically: the
harmful setting along with values of the parameters coupled with it, those first that have been
measured along with it least often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.model import Configuration, Value
from tuner.propose.ascent import Ascent
from tuner.propose.effects import EffectsModel
from tuner.propose.encoding import Floats
from tuner.propose.objective import Objective

#: Measurements by which the ends of a range, which tell most, come before the values inside.
_ENDS_FIRST = 2
#: Squared distance of features up to which two values of a parameter count as alike: half of the
#: variance of the parameter's effect.
_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class Repairs:
    """Finds what to change. ``valid``: returns the valid configuration nearest to values;
    ``measured``: all configurations that have been measured; ``rng``: breaks ties.
    """

    model: EffectsModel
    ascent: Ascent
    objective: Objective
    baseline: Configuration
    valid: Callable[[Mapping[str, Value]], Configuration]
    measured: Sequence[Configuration]
    rng: np.random.Generator

    def of(self, start: Configuration, least: float) -> list[Configuration]:
        """Return repaired variants of what would gain most near ``start`` if it kept every floor,
        the least known first; none if that gains less than ``least`` or breaks no floor.
        """
        parts = np.stack([each.mean for each in self.model.outputs[1:]], axis=1)
        floor, weights = self.objective.floor, np.asarray(self.objective.weights)

        def worth(features: Floats) -> Floats:
            effects = self.model.design(features) @ parts
            worth: Floats = -(np.where(effects <= floor, effects, 0.0) @ weights)
            return worth

        values = self.ascent.climb(start, worth)
        top = self.model.encoding.features([Configuration.of(values)])
        effects = (self.model.design(top) @ parts)[0]
        broken = int(effects.argmax())
        if float(worth(top)[0]) < least or effects[broken] <= floor:
            return []
        culprit = self._culprit(values, self.model.outputs[1 + broken].mean)
        return self._variants(culprit, values)

    def _culprit(self, values: Mapping[str, Value], weights: Floats) -> str:
        """Return the changed setting that costs a component most, by the weights of its effects."""
        names = changed(values, self.baseline)
        others = [Configuration.of(without(values, name, self.baseline)) for name in names]
        effects = self.model.design(self.model.encoding.features(others)) @ weights
        return names[int(effects.argmin())]

    def _variants(self, culprit: str, values: Mapping[str, Value]) -> list[Configuration]:
        """Return variants with other values of the parameters coupled with the culprit: those first
        that have been measured along with it least often.
        """
        setting = values.get(culprit)
        along = [c for c in self.measured if c.as_dict().get(culprit) == setting]
        features = self.model.encoding.features(along)
        ranked = []
        for name in self.model.encoding.partners(culprit):
            choices = self.ascent.choices(name)
            ends = [each for each in choices if each is not None]
            for choice in choices:
                variant = self.valid(with_value(values, name, choice))
                own = variant.as_dict()
                # Values that exclude each other are adapted.
                if own.get(culprit) == setting and own.get(name) != values.get(name):
                    times = self._times(features, name, own.get(name))
                    if choice not in (ends[0], ends[-1]):
                        times += _ENDS_FIRST
                    ranked.append((times, float(self.rng.random()), variant))
        ranked.sort(key=lambda each: each[:2])
        return [variant for *_, variant in ranked]

    def _times(self, features: Floats, name: str, value: Value | None) -> int:
        """Return how many of the configurations with these features have a value like this one."""
        own, group = self.model.encoding.axis(name)
        distance = ((features[:, group] - own.features(value)) ** 2).sum(axis=1)
        return int((distance < _ALIKE).sum())


def changed(values: Mapping[str, Value], baseline: Configuration) -> list[str]:
    """Return the names of the settings that differ from the baseline, sorted."""
    before = baseline.as_dict()
    return sorted(n for n in values.keys() | before.keys() if values.get(n) != before.get(n))


def without(values: Mapping[str, Value], name: str, baseline: Configuration) -> dict[str, Value]:
    """Return the values with one setting reset to the baseline."""
    return with_value(values, name, baseline.as_dict().get(name))


def with_value(values: Mapping[str, Value], name: str, value: Value | None) -> dict[str, Value]:
    """Return the values with one of them replaced, or unset if ``value`` is None."""
    others = {n: v for n, v in values.items() if n != name}
    return others if value is None else others | {name: value}
