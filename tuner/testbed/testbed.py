"""What a campaign needs of a testbed, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tuner.measure.driver import Report
from tuner.measure.workload import Workload
from tuner.target.target import Target


class Engine(Protocol):
    """Runs the workload of a campaign on a client."""

    def run(
        self, run_id: str, seed: int, make_cold: Callable[[], None], stage: Callable[[str], None]
    ) -> Report:
        """Run every stage once; see ``measure.driver``. Raises WorkloadError when the run is
        void.
        """
        ...

    def clean_leftovers(self, prefix: str) -> None:
        """Remove what runs whose identifier begins with ``prefix`` left behind."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """An open testbed: the target, and the engine on the client that is measured.

    ``make_cold`` empties the client's caches between the stages of a workload.
    """

    target: Target
    engine: Engine
    make_cold: Callable[[], None]


class Testbed(Protocol):
    """Opened once a run, and given back whatever happens."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, monotonic: the time that passes on this testbed."""
        ...

    def claim(self) -> bool:
        """Whether ``open`` will bring it up, so that ``close`` takes it down. Asked before
        ``open``.
        """
        ...

    def open(self, workload: Workload, say: Callable[[str], None]) -> Bench:
        """Make it ready and read it; nothing that was there is changed. Raises TestbedError."""
        ...

    def close(self) -> str | None:
        """Give it back; a sentence about what was done, None when nothing was. Harmless when not
        open.
        """
        ...
