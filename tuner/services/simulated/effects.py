"""What the values of parameters do to the times of components. Pure.

Every effect is counted from the program's own default: a parameter that is not set changes nothing.
Curves are drawn on the parameter's scale, the logarithm where the search space spaces it by ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tuner.model import Configuration, Value


class Shape(StrEnum):
    """How an effect grows with the value of its parameter.

    ``step``: in full while the value is in its range, else not at all. ``linear``: in proportion to
    the distance from the default, in full at ``at``, with the opposite sign on the other side.
    ``plateau``: not at all up to one end of a ramp, in full from the other end on. ``hump``: in
    full at ``at``, less on both sides; beyond the mirror image of the default it does harm, at most
    as much as it gains at best. ``peak``: in full at ``at``, and hardly any more ``width`` away.
    """

    STEP = "step"
    LINEAR = "linear"
    PLATEAU = "plateau"
    HUMP = "hump"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether a parameter is in ``low <= value <= high``, or is exactly ``value``.

    ``default``: what an unset parameter counts as; with None the condition does not hold for it.
    """

    parameter: str
    low: float = -math.inf
    high: float = math.inf
    value: Value | None = None
    default: Value | None = None

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds for these values, by qualified name."""
        current = values.get(self.parameter, self.default)
        if current is None:
            return False
        if self.value is not None:
            return type(current) is type(self.value) and current == self.value
        return not isinstance(current, str) and self.low <= current <= self.high


@dataclass(frozen=True, slots=True)
class Effect:
    """What a parameter's value does to the time of some components.

    ``change``: relative change of time where the effect is in full, -0.05 for 5% less, of
    ``components``, all when empty. ``changes``: instead, one for each component named. ``shape``:
    how it grows; a step holds for a ``value``, or in ``low <= value <= high``, and a plateau rises
    from ``low`` to ``high``, or from ``high`` to ``low`` when ``falling``. ``at`` and ``width`` are
    of the other shapes, ``width`` a factor where ``log``, else a distance. ``when``: further
    conditions, without which there is no effect. ``fails``: how a configuration goes wrong instead:
    ``start`` (the program does not start), ``workload`` (the run is void), "" for not at all.
    ``default``: of the parameter, None for one without; ``log``: whether its scale is logarithmic.
    """

    parameter: str
    change: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    value: Value | None = None
    components: tuple[str, ...] = ()
    fails: str = ""
    changes: Mapping[str, float] = field(default_factory=dict)
    shape: Shape = Shape.STEP
    at: float = 0.0
    width: float = 0.0
    falling: bool = False
    when: tuple[Condition, ...] = ()
    default: Value | None = None
    log: bool = False

    @property
    def parts(self) -> frozenset[str]:
        """The parts whose parameters it depends on."""
        names = (self.parameter, *(condition.parameter for condition in self.when))
        return frozenset(name.partition(".")[0] for name in names)

    def holds(self, configuration: Configuration) -> bool:
        """Whether a step applies to a configuration; to an unset parameter it never does."""
        return self.share(configuration.as_dict()) != 0.0

    def share(self, values: Mapping[str, Value]) -> float:
        """The part of the full effect that these values have: 1 for all of it, 0 for none."""
        current = values.get(self.parameter)
        if current is None or not all(condition.holds(values) for condition in self.when):
            return 0.0
        if self.shape is Shape.STEP:
            own = Condition(self.parameter, self.low, self.high, self.value)
            return float(own.holds(values))
        if isinstance(current, str | bool):
            return 0.0
        return self._curve(current) - self._curve(self.default)

    def log_change(self, component: str) -> float:
        """The full effect on one component, in log time."""
        if self.fails:
            return 0.0
        if self.changes:
            return math.log1p(self.changes.get(component, 0.0))
        if self.components and component not in self.components:
            return 0.0
        return math.log1p(self.change)

    def _curve(self, value: Value | None) -> float:
        """The height of the curve over a value; that over an unknown default is 0."""
        if value is None or isinstance(value, str):
            return 0.0
        x = self._place(value)
        if self.shape is Shape.PLATEAU:
            low, high = self._place(self.low), self._place(self.high)
            height = min(1.0, max(0.0, (x - low) / (high - low)))
            return 1.0 - height if self.falling else height
        top = self._place(self.at)
        if self.shape is Shape.PEAK:
            width = math.log(self.width) if self.log else self.width
            return math.exp(-0.5 * ((x - top) / width) ** 2)
        assert isinstance(self.default, int)  # a world is only made with one
        foot = self._place(self.default)
        along = (x - top) / (foot - top)
        if self.shape is Shape.LINEAR:
            return 1.0 - along
        # 1 at the top, 0 at the default, and never under -1 however far away.
        return float(2.0 ** (1.0 - min(along**2, 60.0)) - 1.0)

    def _place(self, value: float) -> float:
        return math.log(value) if self.log else float(value)
