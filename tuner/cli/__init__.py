"""The command line. ``main`` is the console script ``fstune``."""

from tuner.cli.app import main

__all__ = ["main"]
