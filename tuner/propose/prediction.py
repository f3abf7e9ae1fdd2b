"""Records of the search: predictions for a configuration and for each of its settings."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import Configuration


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction for a configuration. ``gain``: mean of the negated log time ratio to the baseline;
    ``error``: its standard deviation; ``feasible``: the probability that it runs and keeps every
    floor. ``components``: mean and standard deviation of each component's log time ratio.
    ``changes``: the number of settings that differ from the baseline.
    """

    configuration: Configuration
    gain: float
    error: float
    feasible: float
    components: tuple[tuple[float, float], ...]
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Contribution:
    """The contribution of the setting ``name`` of a configuration. ``gain``: how much longer the
    configuration takes without it, in log time; ``error``: the standard deviation of that.
    """

    name: str
    gain: float
    error: float
