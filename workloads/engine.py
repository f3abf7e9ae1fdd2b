"""Runs one stage of a spec: workers, barriers, clocks. Raises at the first failure.

A phase's time is the wall time, on the monotonic clock, from the release of the barrier before it
until the last worker finishes; a component's time is the sum over its phases. All workers prepare
before and check after that interval; a worker that must check within it pauses its clock meanwhile.
The wall time of a paced phase would be meaningless, so its time is instead the time a process
spends waiting for its operations, counted from their intended starts, averaged over processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from workloads import rundir
from workloads.content import Content
from workloads.crew import Crew
from workloads.failure import Failure, WorkloadFailure
from workloads.gate import Gate, open_gate
from workloads.plan import PhasePlan, plan_stage
from workloads.result import OperationResult, PhaseResult, StageResult
from workloads.spec import Spec
from workloads.worker import PhaseTime, Worker


@dataclass(frozen=True)
class RunOptions:
    """How to run a stage: where it reports progress, and what it waits for.

    ``progress`` is called with one line per phase. The ``start`` gate is passed once, before the
    first phase; the ``barrier`` gate before every phase.
    """

    progress: Callable[[str], None]
    start: Gate = open_gate
    barrier: Gate = open_gate


def run_stage(
    spec: Spec,
    stage_name: str,
    directory: str,
    run_id: str,
    seed: int,
    options: RunOptions,
) -> StageResult:
    """Run one stage in ``directory/fstune-<run_id>`` and return its results.

    The first stage creates the run directory, the last removes it; after a failure it remains until
    ``rundir.remove``. Raises WorkloadFailure if the run is void, KeyError if there is no such
    stage, ValueError if the run id is invalid.
    """
    index = spec.stage_index(stage_name)
    deadline = time.monotonic() + spec.stages[index].wall_clock_limit_s
    processes = spec.stages[index].processes
    root = rundir.path_of(directory, run_id)
    plan = plan_stage(spec, index, seed)

    for each in plan.phases:
        if each.phase.component and not any(each.steps):
            message = f"nothing is left to do for it, so that {each.phase.component} has no time"
            raise WorkloadFailure(Failure("empty-phase", each.phase.operation, root, None, message))
    # Created before the workers are forked, so that they share it.
    content = Content(seed, run_id)
    for fileset in spec.filesets:
        content.make_pool(fileset.repeated_percent)

    def serve(number: int, connection: Connection[Any, Any]) -> None:
        Worker(number, spec, index, plan, content, root, seed, run_id).serve(connection)

    phases = []
    with Crew(processes, serve, deadline, root) as crew:
        if index == 0:
            crew.ask(("create", 0), "enter", count=1)
        crew.ask(("enter", 0), "enter")
        options.start(stage_name, deadline)
        for number, stage_plan in enumerate(plan.phases):
            result = _run_phase(
                crew,
                number,
                stage_plan,
                processes,
                partial(options.barrier, f"{stage_name} {number}", deadline),
            )
            options.progress(_line(stage_name, result))
            phases.append(result)
        if index == len(spec.stages) - 1:
            crew.ask(("leave", 0), "clean", count=1)
    return StageResult(tuple(phases), plan.operations_sha256)


def _run_phase(
    crew: Crew, number: int, phase_plan: PhasePlan, processes: int, barrier: Callable[[], None]
) -> PhaseResult:
    name = phase_plan.phase.operation
    crew.ask(("prepare", number), name)
    barrier()
    release_ns = time.monotonic_ns()
    times = [each for each in crew.ask(("go", number), name) if isinstance(each, PhaseTime)]
    results: dict[str, OperationResult] = {}
    for own_results in crew.ask(("check", number), name):
        assert isinstance(own_results, dict)
        for operation, result in own_results.items():
            results.setdefault(operation, OperationResult()).merge(result)
    wall_s = (max(each.end_ns for each in times) - release_ns) / 1e9
    elapsed_s = wall_s
    if phase_plan.phase.rate_per_s:
        elapsed_s = sum(each.latency.sum_ns for each in results.values()) / 1e9 / processes
    user_s = sum(each.user_s for each in times)
    return PhaseResult(phase_plan.phase, elapsed_s, wall_s, user_s, results)


def _line(stage: str, result: PhaseResult) -> str:
    phase = result.phase
    steps = sum(each.operations for each in result.operations.values())
    return (
        f"{stage}: {phase.component or 'untimed'}: {phase.operation} {phase.fileset.name}:"
        f" {steps} operations in {result.wall_s:.3f} s"
    )
