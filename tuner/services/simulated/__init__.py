"""A testbed that exists only as arithmetic: known effects, known noise, no host.

Owns a model of a file service whose truth is known, so that what campaigns conclude can be checked,
and tried without a server. It runs in virtual time: a campaign of hours takes seconds. Everything
else, from the plan to the store, is what a real campaign uses.
"""

from tuner.services.simulated.effects import Condition, Effect, Shape
from tuner.services.simulated.noise import Load, Noise, Spikes, Wander
from tuner.services.simulated.testbed import SimulatedTestbed
from tuner.services.simulated.world import Costs, World

__all__ = [
    "Condition",
    "Costs",
    "Effect",
    "Load",
    "Noise",
    "Shape",
    "SimulatedTestbed",
    "Spikes",
    "Wander",
    "World",
]
