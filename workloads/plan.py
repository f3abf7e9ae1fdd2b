"""Turns one stage of a spec into the exact operations of every process, before anything runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workloads.files import (
    PlannedFile,
    absent_name,
    directory_name,
    file_name,
    permutation,
    plan_files,
)
from workloads.sequence import PER_DIRECTORY, FileSetState, advance
from workloads.spec import FileSet, Phase, Spec


@dataclass(frozen=True)
class Step:
    """One operation on ``path`` (beneath the run directory), and what it must find or leave.

    ``target`` is a rename's new path; ``entries`` are the sorted names a listing must give.
    """

    path: str
    target: str = ""
    file_id: int = 0
    generation: int = 0
    size_bytes: int = 0
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class PhasePlan:
    """A phase and its steps, one tuple for each process."""

    phase: Phase
    steps: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class StagePlan:
    """All phases of one stage; ``operations_sha256`` depends on spec, stage and seed alone."""

    phases: tuple[PhasePlan, ...]
    operations_sha256: str


def plan_stage(spec: Spec, stage_index: int, seed: int) -> StagePlan:
    """Return the stage's operations, with the earlier stages taken as done."""
    files = {fileset.name: plan_files(fileset, seed) for fileset in spec.filesets}
    states = {fileset.name: FileSetState() for fileset in spec.filesets}
    planned: list[PhasePlan] = []
    for number, stage in enumerate(spec.stages[: stage_index + 1]):
        for position, phase in enumerate(stage.phases):
            name = phase.fileset.name
            before, states[name] = states[name], advance(phase.operation, states[name])
            if number == stage_index:
                steps = _steps(phase, files[name], before, states[name])
                labels = ("order", stage.name, position)
                shares = _deal(phase, steps, spec.processes, seed, labels)
                planned.append(PhasePlan(phase, shares))
    return StagePlan(tuple(planned), _digest(planned))


def _steps(
    phase: Phase, files: tuple[PlannedFile, ...], before: FileSetState, after: FileSetState
) -> list[Step]:
    """One pass of the phase over the whole file set, in order."""
    fileset = phase.fileset
    if phase.operation in PER_DIRECTORY:
        names = _entries(fileset, files, before) if phase.operation == "list" else {}
        return [
            Step(directory_name(fileset, number), entries=names.get(number, ()))
            for number in range(fileset.directories)
        ]
    steps = []
    for file in files:
        parent = directory_name(fileset, file.directory)
        name = file_name(file.file_id, before.renames)
        target = ""
        if phase.operation == "rename":
            target = f"{parent}/{file_name(file.file_id, after.renames)}"
        elif phase.operation == "create":
            name = file_name(file.file_id, after.renames)
        elif phase.operation == "negative-stat":
            name = absent_name(file.file_id)
        steps.append(
            Step(f"{parent}/{name}", target, file.file_id, after.generation, file.size_bytes)
        )
    return steps


def _entries(
    fileset: FileSet, files: tuple[PlannedFile, ...], state: FileSetState
) -> dict[int, tuple[str, ...]]:
    if not state.files:
        return {}
    names: dict[int, list[str]] = {number: [] for number in range(fileset.directories)}
    for file in files:
        names[file.directory].append(file_name(file.file_id, state.renames))
    return {number: tuple(sorted(found)) for number, found in names.items()}


def _deal(
    phase: Phase, steps: list[Step], processes: int, seed: int, labels: tuple[object, ...]
) -> tuple[tuple[Step, ...], ...]:
    """Deal the steps to the processes in turn and repeat each share ``passes`` times."""
    shares = []
    for process in range(processes):
        share = steps[process::processes]
        repeated: list[Step] = []
        for turn in range(phase.passes):
            if phase.order == "shuffled":
                order = permutation(len(share), seed, *labels, process, turn)
                repeated.extend(share[index] for index in order)
            else:
                repeated.extend(share)
        shares.append(tuple(repeated))
    return tuple(shares)


def _digest(phases: list[PhasePlan]) -> str:
    total = hashlib.sha256()
    for planned in phases:
        operation = f"{planned.phase.operation}\0{planned.phase.fileset.record_bytes}"
        for process, steps in enumerate(planned.steps):
            for step in steps:
                entries = "\0".join(step.entries)
                total.update(
                    f"{operation}\0{process}\0{step.path}\0{step.target}\0{step.file_id}"
                    f"\0{step.generation}\0{step.size_bytes}\0{entries}\n".encode()
                )
    return total.hexdigest()
