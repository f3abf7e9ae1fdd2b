"""Readings of counters, and differences between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """The numbers of one program or host at one moment.

    ``counters`` only grow during one ``life``; a different ``life`` means that they restarted from
    zero. ``gauges`` are momentary values.
    """

    life: str
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


def difference(before: Sample | None, after: Sample) -> dict[str, float]:
    """The increase of each counter between two samples.

    If a new life began in between, its counters started from zero. A counter that is missing in
    ``before``, or that has decreased, is omitted as meaningless. Without ``before``, returns {}.
    """
    if before is None:
        return {}
    if before.life != after.life:
        return dict(after.counters)
    changes = {
        name: value - before.counters[name]
        for name, value in after.counters.items()
        if name in before.counters
    }
    return {name: change for name, change in changes.items() if change >= 0.0}
