"""Records of each parameter's effect according to a campaign's model, for display."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tuner.model import Value
from tuner.records.estimate import Estimate, is_clear


class EffectState(StrEnum):
    """What is known about a parameter: some value has an effect, no value has one worth acting on,
    or neither is shown yet.
    """

    CLEAR = "clear"
    INERT = "inert"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Level:
    """A value that was tried, None for "not set". ``estimate``: the time with it over that with the
    baseline's value, averaged over the other settings as measured, with its 95% interval. ``arms``:
    number of arms that measured it. ``at``: its position in the range tried, 0 to 1; None if values
    have no order.
    """

    value: Value | None
    estimate: Estimate
    arms: int
    at: float | None


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """One parameter with its tried values: numbers in order, "not set" last. ``resolution``: no
    value tried changes the score by more than this fraction, according to the measurements alone;
    infinite if they give no information.
    """

    name: str
    baseline: Value | None
    standing: EffectState
    resolution: float
    levels: tuple[Level, ...]

    @property
    def strongest(self) -> Level:
        """The value with the largest effect; a clear effect takes precedence."""

        def rank(level: Level) -> tuple[bool, float]:
            of = level.estimate
            return is_clear(of.lower, of.upper), _size(of)

        return max(self.levels, key=rank)


@dataclass(frozen=True, slots=True)
class PairEffect:
    """The interaction of two parameters. ``values``: those tried together with the largest
    difference; ``estimate``: the time with both over the combined effect of each alone.
    """

    names: tuple[str, str]
    values: tuple[Value | None, Value | None]
    estimate: Estimate
    arms: int


@dataclass(frozen=True, slots=True)
class ParameterEffects:
    """All parameters of a campaign, the most important first; then clear pairs, likewise.

    ``blocks``, ``arms``: numbers used; ``blocks_measured``: number of complete blocks. ``reason``:
    why there is no result, "" if there is one.
    """

    blocks: int
    blocks_measured: int
    arms: int
    parameters: tuple[ParameterEffect, ...]
    pairs: tuple[PairEffect, ...]
    reason: str = ""


def _size(of: Estimate) -> float:
    return max(of.ratio, 1.0 / of.ratio)
