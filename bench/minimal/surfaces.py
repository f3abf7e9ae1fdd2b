"""Random surfaces over the search spaces of a real fileserver and client, with one to five active
parameters.

Effects are independent and begin somewhere in the middle of their parameter's range, so the best
configuration is known without a search: every active parameter where its effect begins.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Final

from search_spaces import Kind, Parameter
from tuner.model import Configuration
from tuner.services.simulated import Effect
from tuner.simulate.surface import Surface, load_surface

MOST_ACTIVE: Final = 5
#: Parameters that can be set independently and are near the low end of their range by default.
_PARAMETERS: Final = (
    "fileserver.threads",
    "fileserver.dir_buffers",
    "fileserver.callbacks",
    "fileserver.udp_buffer",
    "fileserver.large_vnodes",
    "fileserver.small_vnodes",
    "fileserver.vhandle_max_cachesize",
    "cache_manager.daemons",
    "cache_manager.blocks",
    "cache_manager.stat",
)
#: Range of the gain of one parameter, in log score: from well above delta to a tenth.
_LEAST, _MOST = 0.03, 0.10
#: The largest effect on one component, in log time.
_LARGEST: Final = 0.4
#: Where along its scale an effect begins.
_BEGINS: Final = (0.5, 0.75)
#: Lends its spaces, workload, statistics and costs.
_LIKE: Final = "sparse-three"


def draw_surface(seed: int) -> tuple[Surface, dict[str, float]]:
    """Return the surface of a seed, and the gain of each active parameter in log score, by name."""
    chance, like = random.Random(seed), load_surface(_LIKE)
    gains, best, effects = {}, {}, []
    for name in chance.sample(_PARAMETERS, chance.randint(1, MOST_ACTIVE)):
        part, _, own = name.partition(".")
        begins = _along(like.spaces[part][own], chance.uniform(*_BEGINS))
        gains[name] = chance.uniform(_LEAST, _MOST)
        effects.append(Effect(name, low=begins, changes=_changes(like, gains[name], chance)))
        best[name] = begins
    world = replace(like.world, effects=tuple(effects), seed=seed)
    surface, configuration = replace(like, world=world), Configuration.of(best)
    score = surface.truth(configuration).score
    return replace(surface, known_best=(configuration, score)), gains


def _changes(like: Surface, gain: float, chance: random.Random) -> dict[str, float]:
    """Draw relative changes of some components that add up to this gain in score."""
    weights = dict(zip(like.components, like.workload.weights, strict=True))
    timed = chance.sample(like.components, len(like.components))
    count = chance.randint(1, 4)
    while gain > _LARGEST * sum(weights[each] for each in timed[:count]):
        count += 1
    change = math.expm1(-gain / sum(weights[each] for each in timed[:count]))
    return dict.fromkeys(timed[:count], change)


def _along(parameter: Parameter, share: float) -> int:
    """Return the value at a fraction of a parameter's scale."""
    low, high = parameter.low, parameter.high
    if parameter.kind is Kind.INT:
        return round(low + (high - low) * share)
    value = low * (high / low) ** share
    return 1 << round(math.log2(value)) if parameter.kind is Kind.POWER_OF_TWO else round(value)
