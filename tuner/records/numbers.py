"""The numbers of a campaign that its page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.records.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Numbers:
    """Results derived from all times.

    ``estimates``: each trial compared with the baseline in the search; ``fresh``: in fresh blocks,
    with their number. ``drift``: the baseline's time in each complete block divided by its mean.
    ``clients``: the time of each of several clients divided by the mean of all, in the newest
    blocks. ``testbeds_differ``: how testbeds differ, if they do.
    """

    estimates: Mapping[int, Estimate] = field(default_factory=dict)
    fresh: Mapping[int, tuple[Estimate, int]] = field(default_factory=dict)
    drift: Sequence[float] = ()
    clients: Mapping[str, float] = field(default_factory=dict)
    testbeds_differ: str = ""
