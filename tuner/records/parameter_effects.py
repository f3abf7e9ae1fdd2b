"""What a campaign's model of effects makes of each parameter, as records to show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tuner.model import Value
from tuner.records.estimate import Estimate


class Standing(StrEnum):
    """What is known of a parameter: some value has an effect, none has one worth acting on, or
    neither can be told yet.
    """

    CLEAR = "clear"
    INERT = "inert"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Level:
    """A value that was tried, None for "not set". ``estimate``: the time with it over that with the
    baseline's value, averaged over the other settings as they were measured, and its 95% interval.
    ``arms``: so many measured it. ``at``: where it stands in the range tried, 0 to 1; None where
    values have no order.
    """

    value: Value | None
    estimate: Estimate
    arms: int
    at: float | None


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """One parameter, by its tried values: numbers in order, "not set" last. ``resolution``: no
    value tried changes the score by more than this fraction, as far as the measurements alone can
    tell; infinite where they tell nothing.
    """

    name: str
    baseline: Value | None
    standing: Standing
    resolution: float
    levels: tuple[Level, ...]

    @property
    def strongest(self) -> Level:
        """The value with the largest effect, a clear one if there is any."""
        return max(self.levels, key=lambda level: (_clear(level.estimate), _size(level.estimate)))


@dataclass(frozen=True, slots=True)
class PairEffect:
    """Two parameters that do together what they do not do apart. ``values``: those tried together
    with the largest difference; ``estimate``: the time with both over what each alone adds up to.
    """

    names: tuple[str, str]
    values: tuple[Value | None, Value | None]
    estimate: Estimate
    arms: int


@dataclass(frozen=True, slots=True)
class ParameterEffects:
    """All parameters of a campaign, what matters most first; then clear pairs, likewise.

    ``blocks``, ``arms``: that it rests on, ``blocks_measured``: complete ones that there are.
    ``reason``: why there is nothing, "" where there is.
    """

    blocks: int
    blocks_measured: int
    arms: int
    parameters: tuple[ParameterEffect, ...]
    pairs: tuple[PairEffect, ...]
    reason: str = ""


def _clear(of: Estimate) -> bool:
    return of.lower > 1.0 or of.upper < 1.0


def _size(of: Estimate) -> float:
    return max(of.ratio, 1.0 / of.ratio)
