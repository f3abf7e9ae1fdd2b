"""Surfaces: simulated services whose truth is known, and what campaigns find on them."""

from tuner.simulate.best import Truth
from tuner.simulate.surface import Surface, load_surface, surface_names

__all__ = ["Surface", "Truth", "load_surface", "surface_names"]
