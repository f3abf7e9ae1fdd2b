"""What a campaign that compares given configurations comes to, as a record to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tuner.records.estimate import Estimate


class Word(StrEnum):
    """What is shown of a configuration, or of one component with it, against the baseline.

    ``same``: no difference beyond delta, in either direction.
    """

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    OPEN = "open"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ShownEffect:
    """What is shown, and how large the difference is; None before there is anything to tell."""

    word: Word
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class ComparedConfiguration:
    """One configuration. ``changes``: its settings that differ from the baseline, as a sentence;
    ``blocks``: that measured both. ``components``: each by itself, at the same level.
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
    """All configurations. ``confidence``: of each interval; ``together``: that all intervals of
    whole workloads hold at once, whenever one looks. ``delta``: a fraction.
    """

    rows: tuple[ComparedConfiguration, ...]
    confidence: float
    together: float
    delta: float
