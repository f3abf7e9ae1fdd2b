"""The interface of a testbed, common to all kinds of services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from tuner.measure.diagnostics.watch import Watch
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload
from tuner.measure.workload_run import Engine
from tuner.model import PageCache
from tuner.services.host_state import HostState
from tuner.services.target import Target


class Reference(Protocol):
    """Runs the workload of a campaign on a path that is not tuned."""

    @property
    def plan(self) -> ReferencePlan:
        """The plan of the reference."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine that measures on the path."""
        ...

    def make_cold(self, run_id: str) -> PageCache | None:
        """Make the files of a run cold; returns whether that worked, None if nothing is cached.
        Raises WorkloadError if the run is void.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadyTestbed:
    """An open testbed: the target, and the engine that runs on its clients.

    ``make_cold`` empties the clients' caches between the stages of a workload. ``watch`` reads the
    diagnostics. ``hosts``: the state of hosts that affects measurements, besides the programs.
    ``distrust``: called when a run has failed. A client that has died is restarted when the next
    configuration is applied, even if that does not change its settings. ``why_unusable``: why
    the workload cannot use its storage, as the servers see it, "" if they know of nothing; raises
    nothing. ``predecessors``: campaigns and applications whose processes died there, so that their
    runs may have left files.
    """

    target: Target
    engine: Engine
    make_cold: Callable[[], None]
    watch: Watch
    references: tuple[Reference, ...] = ()
    hosts: tuple[HostState, ...] = ()
    distrust: Callable[[], None] = lambda: None
    why_unusable: Callable[[], str] = lambda: ""
    predecessors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a testbed must not be used now, and from when on it may be used again."""

    reason: str
    until: datetime


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

    def unavailable(self) -> Unavailable | None:
        """Why it must not be used now; None if it may be. Also when it is not open."""
        ...

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        """Prepare and read it; existing settings are not changed. Raises TestbedError."""
        ...

    def close(self) -> str | None:
        """Release it; returns a sentence about what was done, or None.

        Does nothing if the testbed is not open.
        """
        ...


@runtime_checkable
class NamesHolder(Protocol):
    """A testbed whose hosts tell others who uses them."""

    def say_verification(self) -> None:
        """Let its hosts call the campaign of ``claim`` a verification. Called before ``open``."""
        ...


@runtime_checkable
class Recoverable(Protocol):
    """A testbed of a testbed file. It can be restored without being opened, also when it must not
    be used now; 'fstune testbed restore' does so by hand.
    """

    def recover(self, campaign: str) -> list[str]:
        """Restore what earlier runs of a campaign have changed and not restored; return a sentence
        for each part. Nobody else's use is disturbed. Does nothing once ``open`` has taken hosts.

        Raises TestbedError when something could not be restored, after restoring the rest.
        """
        ...
