"""Open testbeds for applications, without an engine."""

from __future__ import annotations

from typing import Any

from tuner.apply.open_testbed import OpenTestbed
from tuner.services.lasting import lasting_parts
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed


class NoEngine:
    """An engine without runs."""

    def end_runs(self, prefix: str) -> None:
        """See Engine.end_runs."""


def open_lasting(name: str, target: Target) -> OpenTestbed:
    """Return a testbed open for the application ``name``, which measures nothing."""
    engine: Any = NoEngine()
    unused: Any = None
    ready = ReadyTestbed(target, engine, unused, unused)
    return OpenTestbed(name, ready, lasting_parts(target), (), lambda message: None)
