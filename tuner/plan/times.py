"""Convert stored measurements to the numbers that the judge takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.model import ComponentResult


def times_of(
    results: Mapping[str, ComponentResult], components: Sequence[str]
) -> tuple[float, ...]:
    """Return the times (s) of a run in the order of ``components``."""
    return tuple(results[name].elapsed_s for name in components)
