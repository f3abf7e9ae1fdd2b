"""Effects of parameter values on component times. Pure.

Every effect is relative to the program's own default: a parameter that is not set has no effect.
Curves are defined on the parameter's scale, which is logarithmic if that of the search space is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tuner.model import Configuration, Value


class Shape(StrEnum):
    """How an effect grows with the value of its parameter.

    ``step``: the full effect for values in its range, otherwise none. ``linear``: proportional to
    the distance from the default, the full effect at ``at``, with the opposite sign on the other
    side. ``plateau``: none up to one end of a ramp, the full effect from the other end on.
    ``hump``: the full effect at ``at``, less on both sides; beyond the mirror image of the default
    it does harm, at most as much as its largest gain. ``peak``: the full effect at ``at``, and
    almost none at a distance of ``width``.
    """

    STEP = "step"
    LINEAR = "linear"
    PLATEAU = "plateau"
    HUMP = "hump"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a parameter: ``low <= value <= high``, or exactly ``value``.

    ``default``: the value assumed for an unset parameter; if None, the condition is false then.
    """

    parameter: str
    low: float = -math.inf
    high: float = math.inf
    value: Value | None = None
    default: Value | None = None

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether the condition is true for these values, by qualified name."""
        current = values.get(self.parameter, self.default)
        if current is None:
            return False
        if self.value is not None:
            return type(current) is type(self.value) and current == self.value
        return not isinstance(current, str) and self.low <= current <= self.high


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a parameter on the times of some components.

    ``change``: relative change of time at full effect, -0.05 for 5% less; it applies to
    ``components``, or to all if empty. ``changes``: replaces both, with one change per component.
    ``shape``: how the effect depends on the value. A step applies at ``value``, or for ``low <=
    value <= high``; a plateau rises from ``low`` to ``high``, or from ``high`` to ``low`` if
    ``falling``; the other shapes use ``at`` and ``width``, a factor if ``log``, otherwise a
    distance. ``when``: further conditions, all of which must be true. ``fails``: makes the
    configuration fail instead: ``start`` (the program does not start), ``workload`` (the run is
    void), "" for no failure. ``default``: of the parameter, None if it has none; ``log``: whether
    its scale is logarithmic.
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
    def parameters(self) -> tuple[str, ...]:
        """The qualified names of the parameters that it depends on."""
        return self.parameter, *(condition.parameter for condition in self.when)

    @property
    def parts(self) -> frozenset[str]:
        """The parts whose parameters it depends on."""
        return frozenset(name.partition(".")[0] for name in self.parameters)

    def holds(self, configuration: Configuration) -> bool:
        """Whether a step applies to a configuration; it never does if the parameter is unset."""
        return self.share(configuration.as_dict()) != 0.0

    def share(self, values: Mapping[str, Value]) -> float:
        """The fraction of the full effect at these values: 1 for all of it, 0 for none."""
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
        """The height of the curve at a value; 0 at an unknown default."""
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
        assert isinstance(self.default, int)  # ensured when the world is created
        foot = self._place(self.default)
        along = (x - top) / (foot - top)
        if self.shape is Shape.LINEAR:
            return 1.0 - along
        # 1 at the top, 0 at the default, and never below -1 at any distance.
        return float(2.0 ** (1.0 - min(along**2, 60.0)) - 1.0)

    def _place(self, value: float) -> float:
        return math.log(value) if self.log else float(value)
