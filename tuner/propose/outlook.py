"""What is expected of a configuration, and of each of its settings: the records of the search."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import Configuration


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is expected of a configuration. ``gain``: the mean of minus its log time ratio to the
    baseline, ``error`` its standard deviation; ``feasible``: the probability that it runs and that
    every floor is kept. ``components``: mean and standard deviation of each component's log time
    ratio. ``changes``: the number of settings that differ from the baseline.
    """

    configuration: Configuration
    gain: float
    error: float
    feasible: float
    components: tuple[tuple[float, float], ...]
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one setting ``name`` of a configuration brings: how much longer the others take without
    it, in log time, and the standard deviation of that.
    """

    name: str
    gain: float
    error: float
