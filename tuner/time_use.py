"""How the time of a campaign was used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeUse:
    """How the wall time of a campaign's runs was used, in seconds.

    ``testbed_s``: bringing the testbed up and down; ``apply_s``: restarts, remounts and read-back;
    ``workload_s``: the workload; ``wall_s``: the total. The rest is the overhead of fstune. While
    several testbeds measure at once, the busiest one counts: the others may wait for it.
    """

    wall_s: float = 0.0
    testbed_s: float = 0.0
    apply_s: float = 0.0
    workload_s: float = 0.0

    @property
    def overhead_s(self) -> float:
        """Time spent in fstune itself: proposer, judge, database, and remote calls outside the
        other categories.
        """
        return max(0.0, self.wall_s - self.testbed_s - self.apply_s - self.workload_s)

    @property
    def overhead_share(self) -> float:
        """``overhead_s`` as a fraction of the wall time; 0 before any time has passed."""
        return self.overhead_s / self.wall_s if self.wall_s > 0.0 else 0.0

    def __add__(self, other: TimeUse) -> TimeUse:
        return TimeUse(
            self.wall_s + other.wall_s,
            self.testbed_s + other.testbed_s,
            self.apply_s + other.apply_s,
            self.workload_s + other.workload_s,
        )

    def __sub__(self, other: TimeUse) -> TimeUse:
        return TimeUse(
            max(0.0, self.wall_s - other.wall_s),
            max(0.0, self.testbed_s - other.testbed_s),
            max(0.0, self.apply_s - other.apply_s),
            max(0.0, self.workload_s - other.workload_s),
        )
