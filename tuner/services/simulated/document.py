"""The ``simulated:`` section of a campaign file, which describes a simulated testbed.

Defines the keys, their defaults, the error messages, and how a section is converted to a ``World``.
The same section, with a name and search spaces, forms a surface file (see
``tuner.simulate.surface``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from search_spaces import Kind, Parameter, Space
from tuner.documents import Duration, Name, ParameterValue, Section, meant
from tuner.errors import SpecError
from tuner.model import Value
from tuner.services.simulated.effects import Condition, Effect, Shape
from tuner.services.simulated.noise import Load, Noise, Spikes, Wander
from tuner.services.simulated.testbed import FACTS
from tuner.services.simulated.world import Costs, World

# Limits far beyond any practical need, but small enough that no time overflows.
Change = Annotated[float, Field(gt=-1.0, le=1000.0)]
Spread = Annotated[float, Field(ge=0.0, le=10.0)]
Slope = Annotated[float, Field(ge=-10.0, le=10.0)]
Place = Annotated[float, Field(ge=-1e12, le=1e12)]
Correlation = Annotated[float, Field(ge=0.0, lt=1.0)]


class ConditionSection(Section):
    """A further condition; an unset parameter counts as the program's default."""

    parameter: str
    low: Place | None = None
    high: Place | None = None
    value: ParameterValue | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ConditionSection:
        bounds = (self.low, self.high)
        if (self.value is None) == (bounds == (None, None)):
            raise ValueError("give 'low', 'high' or both, or 'value'")
        return self


class EffectSection(Section):
    """A true effect of a simulated testbed; see ``Effect``."""

    parameter: str
    change: Change = 0.0
    changes: dict[str, Change] = Field(default_factory=dict)
    shape: Shape = Shape.STEP
    low: Place | None = None
    high: Place | None = None
    value: ParameterValue | None = None
    at: Place | None = None
    width: Annotated[float, Field(ge=1e-3, le=1e12)] | None = None
    falling: bool = False
    components: tuple[str, ...] = ()
    when: tuple[ConditionSection, ...] = ()
    fails: Literal["", "start", "workload"] = ""

    @model_validator(mode="after")
    def _complete(self) -> EffectSection:
        takes = {
            Shape.STEP: {"low", "high", "value"},
            Shape.PLATEAU: {"low", "high"},
            Shape.PEAK: {"at", "width"},
        }.get(self.shape, {"at"})
        for key in ("low", "high", "value", "at", "width"):
            is_given = getattr(self, key) is not None
            if is_given and key not in takes:
                raise ValueError(f"a {self.shape} takes no '{key}'")
            if not is_given and key in takes and self.shape is not Shape.STEP:
                raise ValueError(f"a {self.shape} needs '{key}'")
        if self.falling and self.shape is not Shape.PLATEAU:
            raise ValueError("only a plateau can be falling")
        if self.shape is not Shape.STEP and self.fails:
            raise ValueError("only a step can fail")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        if self.shape is Shape.PLATEAU and self.low == self.high:
            raise ValueError("a plateau needs a ramp: 'low' and 'high' are the same")
        if self.changes and (self.change or self.components):
            raise ValueError(
                "'changes' replaces 'change' and 'components'; give only one of the two"
            )
        return self


class WanderSection(Section):
    """See ``Wander``."""

    sd: Spread
    correlation: Correlation = 0.6


class SpikesSection(Section):
    """See ``Spikes``."""

    probability: float = Field(ge=0.0, le=1.0)
    change: Change


class LoadSection(Section):
    """See ``Load``."""

    mean: float = Field(ge=1e-6, le=1024.0)
    sd: float = Field(ge=0.0, le=1024.0)
    correlation: Correlation = 0.6
    effect: Slope = 0.0


class CostsSection(Section):
    """Durations in seconds. ``restart``: of a restart of each part; 1 for a part that is not given.
    ``workload``: of a whole run; if not given, one second for each component.
    """

    restart: dict[str, Duration] = Field(default_factory=dict)
    workload: Duration | None = None


class SimulatedSection(Section):
    """A testbed that is only computed, with known effects and noise: for trying out and testing
    fstune. Campaigns with the same ``name`` here take turns. See ``Noise`` for the kinds of noise,
    and ``World`` for ``after_restart``.
    """

    name: Name | None = None
    noise: Spread = 0.014
    noise_factors: dict[str, Spread] = Field(default_factory=dict)
    block_noise: Spread = 0.0
    arm_noise: Spread = 0.0
    wander: WanderSection | None = None
    spikes: SpikesSection | None = None
    drift: Slope = 0.0
    others: LoadSection | None = None
    stolen: LoadSection | None = None
    seed: int = 1
    effects: tuple[EffectSection, ...] = ()
    costs: CostsSection = CostsSection()
    references: dict[str, Annotated[float, Field(gt=0.0)]] = Field(default_factory=dict)
    after_restart: dict[str, Change] = Field(default_factory=dict)
    found: dict[str, ParameterValue] = Field(default_factory=dict)

    def identity(self) -> dict[str, object]:
        """Return what must not change during a campaign, as JSON. A testbed without a name has no
        other identity.
        """
        document = self.model_dump(mode="json")
        if not self.after_restart:
            # Stored campaigns lack this key: with it none of them could be resumed.
            del document["after_restart"]
        return document

    def parameters(self) -> Iterator[tuple[str, str]]:
        """Yield every parameter that is referred to, after the key where that happens."""
        for number, effect in enumerate(self.effects):
            yield f"effects.{number}", effect.parameter
            for index, condition in enumerate(effect.when):
                yield f"effects.{number}.when.{index}", condition.parameter
        for name in self.found:
            yield "found", name


def world_of(
    section: SimulatedSection,
    spaces: Mapping[str, Space],
    components: Collection[str],
    where: str = "simulated",
) -> World:
    """Convert a section to a world. Raises SpecError.

    ``spaces``: must have all parameters of the section; ``components``: of the workload; ``where``:
    the section's key, for error messages.
    """
    _check_components(section, components, where)
    parts = (("costs.restart", section.costs.restart), ("after_restart", section.after_restart))
    for key, by_part in parts:
        for part in by_part.keys() - spaces.keys():
            raise SpecError(f"{where}.{key}: no part {part!r}: {', '.join(spaces)}")
    scales = _Scales(spaces)
    noise = Noise(
        component=section.noise,
        block=section.block_noise,
        arm=section.arm_noise,
        factors=section.noise_factors,
        wander=None if section.wander is None else Wander(**section.wander.model_dump()),
        spikes=None if section.spikes is None else Spikes(**section.spikes.model_dump()),
        drift=section.drift,
        others=None if section.others is None else Load(**section.others.model_dump()),
        stolen=None if section.stolen is None else Load(**section.stolen.model_dump()),
    )
    workload_s = section.costs.workload
    one_s = 1.0 if workload_s is None else workload_s / len(components)
    return World(
        effects=tuple(
            scales.effect(effect, f"{where}.effects.{number}")
            for number, effect in enumerate(section.effects)
        ),
        noise=noise,
        seed=section.seed,
        costs=Costs(section.costs.restart, component=one_s),
        references=section.references,
        after_restart=section.after_restart,
    )


class _Scales:
    """The defaults and scales of all parameters."""

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self._parameters: dict[str, Parameter] = {}
        self._defaults: dict[str, Value] = {}
        for part, space in spaces.items():
            self._parameters |= {f"{part}.{p.name}": p for p in space.parameters}
            unset = space.in_effect({}, FACTS)
            self._defaults |= {f"{part}.{name}": value for name, value in unset.items()}

    def effect(self, section: EffectSection, where: str) -> Effect:
        """Convert a section to an effect. Raises SpecError if shape and parameter do not fit."""
        name, shape = section.parameter, section.shape
        kind, default = self._parameters[name].kind, self._defaults.get(name)
        log = kind in (Kind.LOG_INT, Kind.POWER_OF_TWO)
        if shape is not Shape.STEP:
            if not kind.numeric:
                raise SpecError(f"{where}: {name} has no scale for a {shape}; give it a 'value'")
            if shape in (Shape.LINEAR, Shape.HUMP) and default is None:
                raise SpecError(f"{where}: {name} has no default that a {shape} could start from")
            for key in ("low", "high", "at", "width"):
                least, number = 1.0 if key == "width" else 0.0, getattr(section, key)
                if log and number is not None and number <= least:
                    raise SpecError(
                        f"{where}.{key}: the scale of {name} is logarithmic; write a number above "
                        f"{least:g}"
                    )
            if shape in (Shape.LINEAR, Shape.HUMP) and section.at == default:
                raise SpecError(f"{where}.at: {name} is {default} already when it is not set")
        fields = section.model_dump(exclude_none=True, exclude={"when"})
        when = tuple(self._condition(condition) for condition in section.when)
        return Effect(**fields, when=when, default=default, log=log)

    def _condition(self, section: ConditionSection) -> Condition:
        default = self._defaults.get(section.parameter)
        return Condition(
            section.parameter,
            -math.inf if section.low is None else section.low,
            math.inf if section.high is None else section.high,
            section.value,
            default,
        )


def _check_components(section: SimulatedSection, names: Collection[str], where: str) -> None:
    uses = [(f"{where}.noise_factors", name) for name in section.noise_factors]
    for number, effect in enumerate(section.effects):
        key = f"{where}.effects.{number}"
        uses += [(f"{key}.components", name) for name in effect.components]
        uses += [(f"{key}.changes", name) for name in effect.changes]
    for key, name in uses:
        if name not in names:
            hint = meant(name, [*names]) or f": {', '.join(names)}"
            raise SpecError(f"{key}: the workload has no component {name!r}{hint}")
