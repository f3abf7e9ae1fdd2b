"""One run of a workload: its stages, one after another, and the report on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tuner.model import ComponentResult
from workloads.spec import Stage

#: Time to remove what runs have left: a run that fails cleans up at once, with less.
LEFTOVERS_S = 180.0


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a complete run, or of one stage, with each component once.

    ``cpu_s``: processor time of the engine itself. ``clients``: the components of each client by
    host, when several ran the workload; ``components`` combines them. ``written_bytes``: lower
    bound on the bytes written by the timed operations. ``diagnostics``: those that an engine
    without probes supplies with the report itself.
    """

    components: Mapping[str, ComponentResult]
    cpu_s: float
    engine_sha256: str
    clients: Mapping[str, Mapping[str, ComponentResult]] = field(default_factory=dict)
    written_bytes: int = 0
    diagnostics: Mapping[str, float | str] = field(default_factory=dict)


class Run(Protocol):
    """A run in progress. The caller measures every stage, in order, and makes the caches cold
    before those with ``cache: cold``.
    """

    @property
    def stages(self) -> Sequence[Stage]:
        """The stages of the workload."""
        ...

    def measure(self, stage: Stage) -> None:
        """Run one stage. Raises WorkloadError if the run is void."""
        ...

    def report(self) -> Report:
        """Combine the reports of the stages. Raises WorkloadError if the run is void."""
        ...


class Engine(Protocol):
    """Runs the workload of a campaign on its clients."""

    def run(self, run_id: str, seed: int) -> AbstractContextManager[Run]:
        """Begin a run; its files are removed if an exception leaves the context and the client
        still answers.
        """
        ...

    def end_runs(self, prefix: str) -> None:
        """Stop what is still running of runs whose identifier starts with ``prefix``."""
        ...

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        """Stop runs whose identifier starts with ``prefix`` and remove their leftovers, in at most
        ``within_s`` once the runs have ended. Return a sentence on each thing that could not be
        removed: where it is, and what to do.
        """
        ...


@dataclass(slots=True)
class StagedRun:
    """A run whose stages are measured one by one.

    ``measure_stage`` runs one stage, given its name and the number of cold stages so far, including
    it.
    """

    stages: Sequence[Stage]
    measure_stage: Callable[[str, int], Report]
    _reports: list[Report] = field(default_factory=list)
    _cold: int = 0

    def measure(self, stage: Stage) -> None:
        """See Run.measure."""
        self._cold += stage.cache == "cold"
        self._reports.append(self.measure_stage(stage.name, self._cold))

    def report(self) -> Report:
        """See Run.report."""
        components: dict[str, ComponentResult] = {}
        sha256 = ""
        clients: dict[str, dict[str, ComponentResult]] = {}
        for report in self._reports:
            components |= report.components
            sha256 = report.engine_sha256
            for host, own in report.clients.items():
                clients.setdefault(host, {}).update(own)
        return Report(
            components,
            sum(report.cpu_s for report in self._reports),
            sha256,
            clients,
            sum(report.written_bytes for report in self._reports),
        )


@contextmanager
def staged_run(
    stages: Sequence[Stage],
    measure_stage: Callable[[str, int], Report],
    clean: Callable[[], None],
) -> Iterator[StagedRun]:
    """Yield a ``StagedRun``; call ``clean`` if an exception leaves the context."""
    try:
        yield StagedRun(stages, measure_stage)
    except BaseException:
        clean()
        raise


def run_once(engine: Engine, run_id: str, seed: int, make_cold: Callable[[], object]) -> Report:
    """Run every stage once, where nothing else is to happen between them. Raises WorkloadError if
    the run is void.
    """
    with engine.run(run_id, seed) as run:
        for stage in run.stages:
            if stage.cache == "cold":
                make_cold()
            run.measure(stage)
        return run.report()
