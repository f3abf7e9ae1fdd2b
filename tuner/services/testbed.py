"""What a campaign needs of a testbed, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tuner.measure.diagnostics.watch import Watch
from tuner.measure.driver import Report
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload
from tuner.model import PageCache
from tuner.services.host_state import HostState
from tuner.services.target import Target


class Engine(Protocol):
    """Runs the workload of a campaign on its clients."""

    def run(
        self, run_id: str, seed: int, make_cold: Callable[[], None], stage: Callable[[str], None]
    ) -> Report:
        """Run every stage once; see ``measure.driver``. Raises WorkloadError when the run is
        void.
        """
        ...

    def end_runs(self, prefix: str) -> None:
        """End what still goes on of runs whose identifier begins with ``prefix``."""
        ...

    def clean_leftovers(self, prefix: str) -> None:
        """End runs whose identifier begins with ``prefix``, and remove what they left behind."""
        ...


class Reference(Protocol):
    """Runs the workload of a campaign on a path that is not tuned."""

    @property
    def plan(self) -> ReferencePlan:
        """The plan of the reference."""
        ...

    def run(
        self, run_id: str, seed: int, stage: Callable[[str], None]
    ) -> tuple[Report, PageCache | None]:
        """Run every stage once; see ``measure.references``. Raises WorkloadError when the run is
        void.
        """
        ...

    def clean_leftovers(self, prefix: str) -> None:
        """Remove what runs whose identifier begins with ``prefix`` left behind."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """An open testbed: the target, and the engine on the clients that are measured.

    ``make_cold`` empties the clients' caches between the stages of a workload. ``watch`` reads what
    programs and hosts count. ``hosts``: what measurements depend on besides the programs.
    """

    target: Target
    engine: Engine
    make_cold: Callable[[], None]
    watch: Watch
    references: tuple[Reference, ...] = ()
    hosts: tuple[HostState, ...] = ()


class Testbed(Protocol):
    """Opened once a run, and given back whatever happens."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, monotonic: the time that passes on this testbed."""
        ...

    def claim(self, campaign: str) -> bool:
        """Whether ``open`` will bring it up for this campaign, so that ``close`` takes it down.
        Asked before ``open``.
        """
        ...

    def unavailable(self) -> str | None:
        """What keeps a campaign from going on here now; None when nothing does."""
        ...

    def open(self, workload: Workload, say: Callable[[str], None]) -> Bench:
        """Make it ready and read it; nothing that was there is changed. Raises TestbedError."""
        ...

    def close(self) -> str | None:
        """Give it back; a sentence about what was done, None when nothing was. Harmless when not
        open.
        """
        ...
