"""Turns one stage of a spec into the exact operations of every process, before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from workloads.draws import Draws
from workloads.files import permutation
from workloads.mixing import plan_mix
from workloads.phases import Phase
from workloads.population import LiveFile, Population
from workloads.postmark import Postmark
from workloads.sequence import POSTMARK
from workloads.spec import Spec
from workloads.steps import Step
from workloads.trees import extract, remove

Shares = tuple[tuple[Step, ...], ...]
"""The steps of a phase, one tuple for each process."""

_ALONE = ("extract", "remove-tree", *POSTMARK)


@dataclass(frozen=True)
class PhasePlan:
    """A phase and its steps, one tuple for each process."""

    phase: Phase
    steps: Shares


@dataclass(frozen=True)
class StagePlan:
    """All phases of one stage."""

    phases: tuple[PhasePlan, ...]

    @cached_property
    def operations_sha256(self) -> str:
        """A digest of all operations, which depends only on spec, stage and seed."""
        total = hashlib.sha256()
        for planned in self.phases:
            total.update(f"{planned.phase.operation}\0{planned.phase.rate_per_s}\n".encode())
            for process, steps in enumerate(planned.steps):
                for step in steps:
                    entries = "\0".join(step.entries)
                    image = step.image
                    total.update(
                        f"{step.operation}\0{process}\0{step.path}\0{step.target}"
                        f"\0{image.file_id}\0{image.generation}\0{step.start}\0{step.end}"
                        f"\0{step.record_bytes}\0{step.sync}\0{entries}\n".encode()
                    )
        return total.hexdigest()


def plan_stage(spec: Spec, stage_index: int, seed: int) -> StagePlan:
    """Return the stage's operations, assuming that the earlier stages have run."""
    planner = _Planner(spec, seed)
    planned: list[PhasePlan] = []
    for number, stage in enumerate(spec.stages[: stage_index + 1]):
        for position, phase in enumerate(stage.phases):
            shares = planner.shares(phase, stage.processes, (stage.name, position))
            if number == stage_index:
                planned.append(PhasePlan(phase, shares))
    return StagePlan(tuple(planned))


class _Planner:
    """The state of all file sets of a spec after the phases planned so far."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self._seed = seed
        self._populations = {each.name: Population(each, seed) for each in spec.filesets}
        self._postmarks: dict[str, Postmark] = {}

    def shares(self, phase: Phase, processes: int, labels: tuple[object, ...]) -> Shares:
        """Return the steps of the next phase."""
        population = self._populations[phase.fileset.name]
        if phase.mix is not None:
            return plan_mix(population, phase.mix, processes, self._seed, labels)
        if phase.operation in _ALONE:
            steps = tuple(self._alone(phase.operation, population))
            return (steps, *(() for _ in range(processes - 1)))
        return self._deal(phase, population, processes, labels)

    def _alone(self, operation: str, population: Population) -> Sequence[Step]:
        if operation == "extract":
            return list(extract(population))
        if operation == "remove-tree":
            return list(remove(population))
        name = population.fileset.name
        if operation == "postmark-create":
            self._postmarks[name] = Postmark(population)
        return self._postmarks[name].steps(operation)

    def _deal(
        self, phase: Phase, population: Population, processes: int, labels: tuple[object, ...]
    ) -> Shares:
        """Deal directories or files to the processes in turn, each share ``passes`` times."""
        draws = Draws(self._seed, "ranges", *labels)
        acts = _acts(phase.operation, population, draws)
        # In a tree a directory cannot be created before, or removed after, its parent.
        if phase.fileset.fanout and phase.operation in ("mkdir", "rmdir"):
            return (tuple(act() for act in acts), *(() for _ in range(processes - 1)))
        shares = []
        for process in range(processes):
            share = acts[process::processes]
            steps: list[Step] = []
            for turn in range(phase.passes):
                if phase.order == "shuffled":
                    order = permutation(len(share), self._seed, "order", *labels, process, turn)
                    steps.extend(share[index]() for index in order)
                else:
                    steps.extend(act() for act in share)
            shares.append(tuple(steps))
        return tuple(shares)


def _acts(operation: str, population: Population, draws: Draws) -> list[Callable[[], Step]]:
    """Return one callable for each directory or file that the operation applies to, in order."""
    if operation == "mkdir":
        return [
            partial(population.mkdir, number) for number in range(population.fileset.directories)
        ]
    if operation == "rmdir":
        numbers = sorted(population.directories, reverse=bool(population.fileset.fanout))
        return [partial(population.rmdir, number) for number in numbers]
    if operation in ("list", "walk"):
        return [partial(population.list, operation, number) for number in population.directories]
    if operation == "create":
        return [partial(population.create, file) for file in population.planned]
    if operation == "negative-stat":
        return [
            partial(population.absent, file.directory, file.file_id) for file in population.planned
        ]
    return [
        partial(_file_act, operation, population, file, draws)
        for file in list(population.files.values())
    ]


def _file_act(operation: str, population: Population, file: LiveFile, draws: Draws) -> Step:
    record_bytes = population.fileset.record_bytes
    whole: dict[str, Callable[[LiveFile], Step]] = {
        "read": population.read,
        "rewrite": population.rewrite,
        "truncate": population.truncate,
        "link": population.link,
        "rename": population.rename,
        "unlink": population.unlink,
    }
    if operation in whole:
        return whole[operation](file)
    if operation == "append":
        return population.append(file, record_bytes)
    if operation in ("random-read", "random-write", "read-modify-write"):
        start, end = population.random_range(file, record_bytes, draws)
        if operation == "random-read":
            return population.read_part(operation, file, start, end)
        return population.write_part(operation, file, start, end)
    return population.look(operation, file)
