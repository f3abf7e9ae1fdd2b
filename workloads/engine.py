"""Runs one stage of a spec: workers, barriers, clocks; raises on the first thing that is wrong.

A component's time is, summed over its phases, the wall time from the release of the barrier before
the phase to the end of the last worker, on the monotonic clock. Workers prepare before it and check
after it, all of them together, so neither is in anybody's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from workloads import rundir
from workloads.crew import Crew
from workloads.plan import PhasePlan, plan_stage
from workloads.result import ComponentResult, StageResult
from workloads.spec import Spec
from workloads.worker import Tally, Worker


def run_stage(
    spec: Spec,
    stage_name: str,
    directory: str,
    run_id: str,
    seed: int,
    progress: Callable[[str], None] = lambda line: None,
) -> StageResult:
    """Run one stage in ``directory/fstune-<run_id>`` and return what was measured.

    The first stage makes the run directory, the last removes it; after a failure it stays until
    ``rundir.remove``. ``progress`` gets a line a phase. Raises WorkloadFailure when the run is
    void, KeyError when there is no such stage, ValueError when the run id is not one.
    """
    deadline = time.monotonic() + spec.wall_clock_limit_s
    index = spec.stage_index(stage_name)
    root = rundir.path_of(directory, run_id)
    plan = plan_stage(spec, index, seed)

    def serve(number: int, connection: Connection[Any, Any]) -> None:
        Worker(number, spec, plan, root, seed, run_id).serve(connection)

    components: dict[str, ComponentResult] = {}
    verified_files = verified_bytes = 0
    with Crew(spec.processes, serve, deadline, root) as crew:
        crew.ask(("enter", int(index == 0)), "enter", count=1)
        for number, planned in enumerate(plan.phases):
            elapsed_s, tallies = _run_phase(crew, number, planned)
            progress(_line(stage_name, planned, elapsed_s))
            verified_files += sum(tally.checked.verified_files for tally in tallies)
            verified_bytes += sum(tally.checked.verified_bytes for tally in tallies)
            if planned.phase.component is not None:
                name = planned.phase.component
                component = components.setdefault(name, ComponentResult())
                component.elapsed_s += elapsed_s
                for tally in tallies:
                    component.operations += tally.operations
                    component.moved_bytes += tally.checked.moved_bytes
                    component.latency.merge(tally.latency)
        if index == len(spec.stages) - 1:
            crew.ask(("leave", 0), "clean", count=1)
    return StageResult(components, plan.operations_sha256, verified_files, verified_bytes)


def _run_phase(crew: Crew, number: int, planned: PhasePlan) -> tuple[float, list[Tally]]:
    operation = planned.phase.operation
    crew.ask(("prepare", number), operation)
    release_ns = time.monotonic_ns()
    ends_ns = [end for end in crew.ask(("go", number), operation) if isinstance(end, int)]
    tallies = crew.ask(("check", number), operation)
    return (
        (max(ends_ns) - release_ns) / 1e9,
        [tally for tally in tallies if isinstance(tally, Tally)],
    )


def _line(stage: str, planned: PhasePlan, elapsed_s: float) -> str:
    phase = planned.phase
    steps = sum(len(share) for share in planned.steps)
    return (
        f"{stage}: {phase.component or 'untimed'}: {phase.operation} {phase.fileset.name}:"
        f" {steps} operations in {elapsed_s:.3f} s"
    )
