"""The method of 2011: every published preset six times, and Student's t as ministat computes it."""

from __future__ import annotations

from statistics import fmean

import scipy

from bench.peers.service import Service
from search_spaces import Risk
from tuner.model import Configuration
from tuner.services.simulated.testbed import FACTS
from tuner.simulate.surface import Surface

_RUNS = 6
_LEVEL = 0.05


def published(service: Service) -> None:
    """Measure the default and each preset six times; take the fastest that differs at 95%."""
    reference = [service.measure(service.baseline).score for _ in range(_RUNS)]
    best = fmean(reference)
    for preset in presets(service.surface):
        runs = [service.measure(preset) for _ in range(_RUNS)]
        if any(one.failed for one in runs):
            continue
        scores = [one.score for one in runs]
        mean = fmean(scores)
        if mean < best and scipy.stats.ttest_ind(scores, reference).pvalue < _LEVEL:
            best = mean
            service.believe(preset)


def presets(surface: Surface) -> list[Configuration]:
    """Return the published presets for a surface's programs, fitted to what its hosts allow.

    Leaves out duplicates and presets with a risk that the surface does not allow.
    """
    configurations: dict[Configuration, None] = {}
    for part, space in surface.spaces.items():
        for preset in space.presets:
            risky = any(
                space[name].risk is not Risk.PERFORMANCE and not space[name].searched
                for name in preset.values
            )
            if risky:
                continue
            values = space.fit(preset.values, FACTS)
            own = {f"{part}.{name}": value for name, value in values.items()}
            others = [(n, v) for n, v in surface.baseline if not n.startswith(f"{part}.")]
            configurations.setdefault(Configuration.of(dict(others) | own))
    configurations.pop(surface.baseline, None)
    return list(configurations)
