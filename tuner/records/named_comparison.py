"""Records of the result of a campaign that compares named configurations, for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tuner.records.estimate import Estimate


class Word(StrEnum):
    """What is shown about a configuration, or one component with it, compared with the baseline.

    ``same``: no difference beyond delta, in either direction.
    """

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    OPEN = "open"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ShownEffect:
    """What is shown, and the size of the difference; None before there is an estimate."""

    word: Word
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class ComparedConfiguration:
    """One configuration. ``changes``: its settings that differ from the baseline, as a sentence;
    ``blocks``: number of blocks that measured both. ``whole``: the effect on the whole workload;
    ``components``: on each component alone, at the same level; ``reason``: why it did not run, or
    why nothing is shown whatever the interval.
    """

    name: str
    trial: int
    changes: str
    blocks: int
    whole: ShownEffect
    components: Mapping[str, ShownEffect]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NamedComparison:
    """All configurations. ``confidence``: of each interval; ``together``: simultaneous confidence
    of all intervals of whole workloads, valid at any look. ``delta``: a fraction.
    """

    rows: tuple[ComparedConfiguration, ...]
    confidence: float
    together: float
    delta: float
