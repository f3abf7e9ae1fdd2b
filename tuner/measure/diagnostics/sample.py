"""What something counted up to one moment, and what it counted between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """The numbers of one program or host at one moment.

    ``counters`` only ever grow during one ``life``; another word there says that counting began
    anew, at zero. ``gauges`` are numbers of the moment.
    """

    life: str
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


def difference(before: Sample | None, after: Sample) -> dict[str, float]:
    """What was counted between two samples.

    A life that began in between counts from its own zero. A counter that was not read before, or
    that has shrunk all the same, is left out: it says nothing. Without ``before`` nothing is known.
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
