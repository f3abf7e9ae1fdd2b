"""Surfaces: simulated services with known ground truth, and campaigns run on them."""

from tuner.simulate.best import Truth
from tuner.simulate.surface import Surface, load_surface, surface_names

__all__ = ["Surface", "Truth", "load_surface", "surface_names"]
