"""Records of the noise report, kept apart so that displaying them does not import numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class NoiseMeasure(StrEnum):
    """Noise-reduction measures; each includes those before it.

    ``raw``: none. ``paired``: arms are compared only within a block. ``again``: disturbed arms are
    measured again. ``adjusted``: the cost of other load is subtracted.
    """

    RAW = "raw"
    PAIRED = "paired"
    AGAIN = "again"
    ADJUSTED = "adjusted"


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """The noise with the measures up to this one: variances of a difference of two runs, of the
    score and of each component, in squared log units. ``share``: the score's variance as a fraction
    of that without any measure.
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
    """The effect of the measures in one campaign. ``arms``: number of arms used; ``freedom``:
    degrees of freedom of the paired variances; ``again``: number of arms that were measured again;
    ``adjustment``: outcome of the adjustment, one sentence.
    """

    levels: tuple[NoiseLevel, ...]
    arms: int
    freedom: int
    again: int
    adjustment: str
