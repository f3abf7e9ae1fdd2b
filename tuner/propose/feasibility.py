"""The probability that a configuration runs and keeps the floor of every component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tuner.propose.effects import Posterior
from tuner.propose.encoding import Floats


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Model of feasibility. ``components``: the model of each component's log time ratio.
    ``fails``: weights of the features in the probability of failure. ``floor``: the largest log
    time ratio allowed.
    """

    components: Sequence[Posterior]
    fails: Floats
    floor: float

    def chances(self, design: Floats, features: Floats) -> Floats:
        """Return the probability, for each row, that it runs and keeps every floor."""
        chances = self._runs(features)
        for component in self.components:
            mean, variance = component.predict(design)
            chances = chances * self._keeps(mean, np.sqrt(np.maximum(variance, 1e-12)))
        return chances

    def roughly(self, design: Floats, features: Floats, spreads: Sequence[float]) -> Floats:
        """Like ``chances``, but faster: with typical standard errors (``spreads``)."""
        chances = self._runs(features)
        for component, spread in zip(self.components, spreads, strict=True):
            chances = chances * self._keeps(design @ component.mean, spread)
        return chances

    def spreads(self, design: Floats) -> list[float]:
        """Return a typical standard error of each component's effect: the median over the rows."""
        return [
            max(float(np.sqrt(np.median(component.predict(design)[1]))), 1e-6)
            for component in self.components
        ]

    def _runs(self, features: Floats) -> Floats:
        runs: Floats = 1.0 - np.clip(features @ self.fails, 0.0, 1.0)
        return runs

    def _keeps(self, mean: Floats, spread: Floats | float) -> Floats:
        return np.asarray(ndtr((self.floor - mean) / spread), dtype=np.float64)
