"""The interface of a testbed, common to all kinds of services."""

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
        """Run every stage once; see ``measure.driver``. Raises WorkloadError if the run is void."""
        ...

    def end_runs(self, prefix: str) -> None:
        """Stop what is still running of runs whose identifier starts with ``prefix``."""
        ...

    def clean_leftovers(self, prefix: str) -> tuple[str, ...]:
        """Stop runs whose identifier starts with ``prefix`` and remove their leftovers. Return why
        some of these could not be removed, a sentence each.
        """
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
        """Run every stage once; see ``measure.references``.

        Raises WorkloadError if the run is void.
        """
        ...

    def clean_leftovers(self, prefix: str) -> tuple[str, ...]:
        """See ``Engine.clean_leftovers``."""
        ...


@dataclass(frozen=True, slots=True)
class ReadyTestbed:
    """An open testbed: the target, and the engine that runs on its clients.

    ``make_cold`` empties the clients' caches between the stages of a workload. ``watch`` reads the
    diagnostics. ``hosts``: the state of hosts that affects measurements, besides the programs.
    """

    target: Target
    engine: Engine
    make_cold: Callable[[], None]
    watch: Watch
    references: tuple[Reference, ...] = ()
    hosts: tuple[HostState, ...] = ()


class Testbed(Protocol):
    """A testbed, which is opened once per run and always closed afterwards."""

    @property
    def clock(self) -> Callable[[], float]:
        """Monotonic clock of this testbed, in seconds."""
        ...

    def claim(self, campaign: str) -> bool:
        """Return whether ``open`` will bring it up for this campaign and ``close`` take it down.

        Called before ``open``.
        """
        ...

    def unavailable(self) -> str | None:
        """What prevents a campaign from continuing here now; None if nothing does."""
        ...

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        """Prepare and read it; existing settings are not changed. Raises TestbedError."""
        ...

    def close(self) -> str | None:
        """Release it; returns a sentence about what was done, or None.

        Does nothing if the testbed is not open.
        """
        ...
