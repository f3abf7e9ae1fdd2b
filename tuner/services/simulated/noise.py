"""The noise of simulated runs: all changes of times that are not caused by the configuration.

Defines the kinds of noise and how they are drawn. Each number depends only on the seed, the block
and the run, not on earlier draws, so that a resumed campaign draws the same numbers. Noise that is
correlated between runs starts anew with each block.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wander:
    """Autocorrelated noise of log time.

    ``sd``: standard deviation; ``correlation``: between consecutive runs.
    """

    sd: float
    correlation: float


@dataclass(frozen=True, slots=True)
class Spikes:
    """Occasional outliers of a component: their probability, and relative change of time."""

    probability: float
    change: float


@dataclass(frozen=True, slots=True)
class Load:
    """Other load during a run, in processors.

    ``mean`` and ``sd``: mean and standard deviation in processors; ``correlation``: between
    consecutive runs; ``effect``: on log time, per processor.
    """

    mean: float
    sd: float
    correlation: float
    effect: float

    def processors(self, standard: float) -> float:
        """Convert a standard normal number to a load in processors: log-normal, never negative."""
        spread = math.log1p((self.sd / self.mean) ** 2)
        return self.mean * math.exp(math.sqrt(spread) * standard - spread / 2.0)


@dataclass(frozen=True, slots=True)
class Run:
    """The identity of a run. ``position``: the number of earlier runs in the block."""

    seed: int
    block: str
    trial: str
    position: int


@dataclass(frozen=True, slots=True)
class NoiseDraw:
    """The noise of one run.

    ``logs``: noise of log time by component; ``others`` and ``stolen``: load in processors, None if
    the world has no such load.
    """

    logs: tuple[float, ...]
    others: float | None
    stolen: float | None


@dataclass(frozen=True, slots=True)
class Noise:
    """All noise of a simulated testbed.

    Standard deviations of log time: ``component``: of each component of each run, multiplied by its
    entry in ``factors``; ``block``: shared by the runs of a block, and removed by pairing; ``arm``:
    shared by the components of a run. ``drift``: increase of log time per 100 blocks. ``others``
    and ``stolen``: processor time used by other programs, and stolen by the hypervisor.
    """

    component: float = 0.014
    block: float = 0.0
    arm: float = 0.0
    factors: Mapping[str, float] = field(default_factory=dict)
    wander: Wander | None = None
    spikes: Spikes | None = None
    drift: float = 0.0
    others: Load | None = None
    stolen: Load | None = None

    def draw(self, run: Run, components: Sequence[str]) -> NoiseDraw:
        """Draw the noise of one run."""
        own = f"{run.seed}:{run.block}:{run.trial}"
        chance = random.Random(own)
        shared = random.Random(f"{run.seed}:{run.block}").gauss(0.0, self.block)
        if self.arm:
            shared += random.Random(f"{own}:arm").gauss(0.0, self.arm)
        if self.wander is not None:
            step = _autocorrelated(run, "wander", self.wander.correlation)
            shared += self.wander.sd * step
        if self.drift:
            shared += self.drift * int(run.block) / 100.0
        others, stolen = (
            _processors(run, name, getattr(self, name)) for name in ("others", "stolen")
        )
        for load, processors in ((self.others, others), (self.stolen, stolen)):
            if load is not None and processors is not None:
                shared += load.effect * processors
        logs = [
            shared + chance.gauss(0.0, self.component * self.factors.get(name, 1.0))
            for name in components
        ]
        if self.spikes is not None:
            rare = random.Random(f"{own}:spikes")
            height = math.log1p(self.spikes.change)
            logs = [log + height * (rare.random() < self.spikes.probability) for log in logs]
        return NoiseDraw(tuple(logs), others, stolen)


def _processors(run: Run, name: str, load: Load | None) -> float | None:
    return None if load is None else load.processors(_autocorrelated(run, name, load.correlation))


def _autocorrelated(run: Run, name: str, correlation: float) -> float:
    """Draw a standard normal number, correlated with the previous run in the block (AR(1))."""
    steps = random.Random(f"{run.seed}:{run.block}:{name}")
    at = steps.gauss(0.0, 1.0)
    fresh = math.sqrt(1.0 - correlation**2)
    for _ in range(run.position):
        at = correlation * at + fresh * steps.gauss(0.0, 1.0)
    return at
