"""A worker process: it prepares, runs on the clock and checks.

The first worker also creates and removes the run directory. All workers work inside it, with paths
relative to it, and no link leads them anywhere else (see ``confinement``). All access to the
filesystem under test happens in workers, so that the parent always stays responsive.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from workloads import rundir
from workloads.content import Content
from workloads.failure import Failure, WorkloadFailure, os_failure
from workloads.filesets import MAX_RECORD_BYTES
from workloads.histogram import Histogram
from workloads.operations import TABLE
from workloads.plan import StagePlan
from workloads.result import OperationResult
from workloads.spec import Spec
from workloads.steps import Job, Operation, Step, StepError, Stopwatch, own_user_s

HELD_BYTES = 256 << 20
"""Limit on data read but not yet compared, over all processes (at least 4 MiB each)."""


@dataclass(frozen=True)
class PhaseTime:
    """When a process finished its part of a phase (``time.monotonic_ns``), and the processor
    seconds that it used for it outside of system calls; pauses are not counted.
    """

    end_ns: int
    user_s: float


class Worker:
    """One worker; ``number`` selects its share of each phase.

    ``answer`` maps a request to its answer: ("create", 0) in the first stage, ("enter", 0),
    ("leave", 0) and ("prepare", phase) to None, ("go", phase) to PhaseTime, ("check", phase) to
    each operation's OperationResult; and every error to a Failure.
    """

    def __init__(
        self,
        number: int,
        spec: Spec,
        stage: int,
        plan: StagePlan,
        content: Content,
        root: str,
        seed: int,
        run_id: str,
    ) -> None:
        self._number = number
        self._spec = spec
        self._processes = spec.stages[stage].processes
        self._plan = plan
        self._root = root
        self._run_id = run_id
        self._identity = {"run_id": run_id, "seed": str(seed), "spec_sha256": spec.sha256}
        self._content = content
        self._above = -1
        self._watch = Stopwatch()
        self._steps: tuple[Step, ...] = ()
        self._jobs: dict[str, Job] = {}
        self._operations: dict[str, Operation] = {}
        self._acts: list[tuple[Callable[[int], None], int]] = []
        self._durations_ns: list[int] = []

    def serve(self, connection: Connection[Any, Any]) -> None:
        """Answer requests until the other end closes the pipe."""
        while True:
            try:
                request, argument = connection.recv()
            except EOFError:
                return
            connection.send(self.answer(request, argument))

    def answer(self, request: str, argument: int) -> object:
        """Return the answer to one request, a Failure if it failed."""
        act: dict[str, Callable[[int], object]] = {
            "create": self._create,
            "enter": self._enter,
            "prepare": self._prepare,
            "go": self._go,
            "check": self._check,
            "leave": self._leave,
        }
        try:
            return act[request](argument)
        except WorkloadFailure as error:
            return error.failure
        except Exception as error:
            return Failure("engine-error", request, self._root, None, repr(error))

    def _create(self, _: int) -> None:
        files = sum(fileset.files for fileset in self._spec.filesets)
        total_bytes = sum(fileset.total_bytes for fileset in self._spec.filesets)
        rundir.create(self._root, self._identity, files, total_bytes)

    def _enter(self, _: int) -> None:
        self._above = rundir.enter(self._root, self._identity)

    def _leave(self, _: int) -> None:
        rundir.remove_from(self._above, self._root, self._run_id)

    def _prepare(self, phase_number: int) -> None:
        phase_plan = self._plan.phases[phase_number]
        self._steps = phase_plan.steps[self._number]
        own: dict[str, list[Step]] = defaultdict(list)
        positions = []
        for step in self._steps:
            positions.append((step.operation, len(own[step.operation])))
            own[step.operation].append(step)
        held_bytes = max(MAX_RECORD_BYTES, HELD_BYTES // self._processes)
        self._watch = Stopwatch()
        self._jobs = {
            name: Job(".", steps, self._content, held_bytes, self._watch)
            for name, steps in own.items()
        }
        self._operations = {name: TABLE[name](job) for name, job in self._jobs.items()}
        performs = {name: operation.perform for name, operation in self._operations.items()}
        self._acts = [(performs[name], position) for name, position in positions]
        self._durations_ns = []

    def _go(self, phase_number: int) -> PhaseTime:
        phase_plan = self._plan.phases[phase_number]
        rate_per_s = phase_plan.phase.rate_per_s
        before_s = own_user_s()
        try:
            if rate_per_s and self._steps:
                total = sum(len(steps) for steps in phase_plan.steps)
                self._run_paced(total / rate_per_s / len(self._steps))
            else:
                self._run_freely()
        except (StepError, OSError) as error:
            step = self._steps[len(self._durations_ns)]
            if isinstance(error, OSError):
                path = f"{self._root}/{step.path}"
                raise WorkloadFailure(os_failure(error, step.operation, path)) from None
            raise self._failure(error, step.operation, step) from None
        end_ns = time.monotonic_ns() - self._watch.paused_ns
        return PhaseTime(end_ns, max(0.0, own_user_s() - before_s - self._watch.paused_user_s))

    def _run_freely(self) -> None:
        """Start each step when the previous one has finished."""
        clock, note, watch = time.monotonic_ns, self._durations_ns.append, self._watch
        for perform, index in self._acts:
            start = clock() - watch.paused_ns
            perform(index)
            note(clock() - watch.paused_ns - start)

    def _run_paced(self, interval_s: float) -> None:
        """Start a step every ``interval_s``; the processes take turns.

        The latency of a step that starts late because the previous one took too long counts from
        the intended start, so it includes the delay.
        """
        clock, note, watch = time.monotonic_ns, self._durations_ns.append, self._watch
        interval_ns = interval_s * 1e9
        first_ns = clock() + interval_ns * self._number / self._processes
        for turn, (perform, index) in enumerate(self._acts):
            start = round(first_ns + turn * interval_ns)
            early_ns = start - (clock() - watch.paused_ns)
            if early_ns > 0:
                time.sleep(early_ns / 1e9)
                # How late the timer wakes this process is no latency of the file system.
                start = clock() - watch.paused_ns
            perform(index)
            note(clock() - watch.paused_ns - start)

    def _check(self, _: int) -> dict[str, OperationResult]:
        durations: dict[str, list[int]] = defaultdict(list)
        for step, duration in zip(self._steps, self._durations_ns):
            durations[step.operation].append(duration)
        results: dict[str, OperationResult] = {}
        for name, operation in self._operations.items():
            try:
                checked = operation.check()
            except StepError as error:
                raise self._failure(error, name, None) from None
            latency = Histogram()
            latency.add(durations[name])
            results[name] = OperationResult(
                len(durations[name]),
                checked.moved_bytes,
                latency,
                checked.verified_files,
                checked.verified_bytes,
            )
        self._jobs, self._operations, self._acts, self._steps = {}, {}, [], ()
        return results

    def _failure(self, error: StepError, operation: str, step: Step | None) -> WorkloadFailure:
        if error.index is not None:
            step = self._jobs[operation].steps[error.index]
        path = f"{self._root}/{step.path}" if step else self._root
        return WorkloadFailure(Failure(error.kind, operation, path, None, error.message))
