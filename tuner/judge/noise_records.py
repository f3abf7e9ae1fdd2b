"""The records of what each measure against noise brings; who shows them needs no arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class NoiseMeasure(StrEnum):
    """A measure against noise, each on top of those before it. ``raw``: none. ``paired``: the arms
    of a block are compared with each other alone. ``again``: what others disturbed is measured
    again. ``adjusted``: what others' work costs is taken off.
    """

    RAW = "raw"
    PAIRED = "paired"
    AGAIN = "again"
    ADJUSTED = "adjusted"


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """The noise with the measures up to this one: variances of a difference of two runs, of the
    score and of each component, in squared log units. ``share``: of the score's variance without
    any measure.
    """

    measure: NoiseMeasure
    score: float
    components: tuple[float, ...]
    share: float

    @property
    def sd(self) -> float:
        """The standard deviation of a difference of two scores, log units."""
        return math.sqrt(self.score)


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """What the measures brought in one campaign. ``arms``: behind it; ``freedom``: degrees of
    freedom of the paired variances; ``again``: arms that were measured again; ``adjustment``: what
    came of the adjustment, a sentence.
    """

    levels: tuple[NoiseLevel, ...]
    arms: int
    freedom: int
    again: int
    adjustment: str
