"""A simulated testbed: known effects and known noise, without hosts.

It models a file service with a known ground truth, so that the conclusions of campaigns can be
checked, and fstune can be tried without a server. It runs in virtual time: a campaign of hours
takes seconds. Everything else, from the plan to the store, is the same as in a real campaign.
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
