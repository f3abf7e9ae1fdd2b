"""What one worker process does: prepare, run on the clock, check; and, as the first, the run
directory. All access to the filesystem under test is in here, so that the parent always answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from workloads import rundir
from workloads.content import Content
from workloads.failure import Failure, WorkloadFailure, os_failure
from workloads.histogram import Histogram
from workloads.operations import TABLE
from workloads.plan import StagePlan
from workloads.spec import Spec
from workloads.steps import Checked, Job, Mishap, Operation


@dataclass(frozen=True)
class Tally:
    """What one process did in one phase."""

    operations: int = 0
    checked: Checked = field(default_factory=Checked)
    latency: Histogram = field(default_factory=Histogram)


class Worker:
    """One worker; ``number`` says which share of each phase is its own.

    ``answer`` maps a request to its answer: ("enter", 1 in the first stage) and ("leave", 0) to
    None, ("prepare", phase) to None, ("go", phase) to the end as ``time.monotonic_ns``, ("check",
    phase) to a Tally; and anything that goes wrong to a Failure.
    """

    def __init__(self, number: int, spec: Spec, plan: StagePlan, root: str, seed: int, run_id: str):
        self._number = number
        self._spec = spec
        self._plan = plan
        self._root = root
        self._run_id = run_id
        self._identity = {"run_id": run_id, "seed": str(seed), "spec_sha256": spec.sha256}
        self._content = Content(seed, run_id)
        self._job = Job(root, (), self._content, 1)
        self._operation: Operation | None = None
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
        """Return the answer to one request; a Failure when it could not be done."""
        act: dict[str, Callable[[int], object]] = {
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

    def _enter(self, first: int) -> None:
        if first:
            files = sum(fileset.files for fileset in self._spec.filesets)
            total_bytes = sum(fileset.total_bytes for fileset in self._spec.filesets)
            rundir.create(self._root, self._identity, files, total_bytes)
        else:
            rundir.check(self._root, self._identity)

    def _leave(self, _: int) -> None:
        rundir.remove(self._root, self._run_id)

    def _prepare(self, phase_number: int) -> None:
        planned = self._plan.phases[phase_number]
        record_bytes = planned.phase.fileset.record_bytes
        self._job = Job(self._root, planned.steps[self._number], self._content, record_bytes)
        self._operation = TABLE[planned.phase.operation](self._job)
        self._durations_ns = []

    def _go(self, phase_number: int) -> int:
        assert self._operation is not None
        clock, perform, index = time.monotonic_ns, self._operation.perform, 0
        note = self._durations_ns.append
        try:
            for index in range(len(self._job.steps)):
                start = clock()
                perform(index)
                note(clock() - start)
        except Mishap as error:
            raise self._failed(phase_number, error, index) from None
        except OSError as error:
            name = self._plan.phases[phase_number].phase.operation
            raise WorkloadFailure(os_failure(error, name, self._job.path(index))) from None
        return clock()

    def _check(self, phase_number: int) -> Tally:
        assert self._operation is not None
        try:
            checked = self._operation.check()
        except Mishap as error:
            raise self._failed(phase_number, error, 0) from None
        self._operation = None
        latency = Histogram()
        latency.add(self._durations_ns)
        return Tally(len(self._durations_ns), checked, latency)

    def _failed(self, phase_number: int, error: Mishap, index: int) -> WorkloadFailure:
        name = self._plan.phases[phase_number].phase.operation
        path = self._job.path(index if error.index is None else error.index)
        return WorkloadFailure(Failure(error.kind, name, path, None, error.message))
