"""Plans a mix: the sequence of operations, each with its file, offset and length.

Each process has its own directories and its own random stream, so that nothing depends on which
process is faster. A process that has no files left creates one instead of the operation drawn.
"""

from __future__ import annotations

from workloads.draws import Draws
from workloads.phases import Mix
from workloads.population import LiveFile, Population
from workloads.steps import Step


def plan_mix(
    population: Population, mix: Mix, processes: int, seed: int, labels: tuple[object, ...]
) -> tuple[tuple[Step, ...], ...]:
    """Return the steps of every process, and update the population to the state they leave."""
    # Divide the files before planning any step: what one process creates belongs to it alone.
    mixers = [
        _Mixer(population, mix, processes, process, Draws(seed, *labels, process))
        for process in range(processes)
    ]
    return tuple(mixer.steps() for mixer in mixers)


class _Mixer:
    """One process's share of a mix."""

    def __init__(
        self, population: Population, mix: Mix, processes: int, process: int, draws: Draws
    ) -> None:
        self._population = population
        self._mix = mix
        self._draws = draws
        self._count = len(range(process, mix.operations, processes))
        own = [number for number in population.directories if number % processes == process]
        self._directories = own
        # A list with swap-removal: drawing and removing both take constant time.
        self._files = [
            file for file in population.files.values() if file.directory % processes == process
        ]
        self._positions = {file.file_id: position for position, file in enumerate(self._files)}
        self._last: LiveFile | None = None
        self._weights = tuple(weight for _, weight in mix.choose)

    def steps(self) -> tuple[Step, ...]:
        steps = []
        for turn in range(self._count):
            if self._mix.cycle:
                step = self._mix.cycle[turn % len(self._mix.cycle)]
                steps.append(self._step(step.operation, step.file, step.sync))
            else:
                operation = self._mix.choose[self._draws.one_of(self._weights)][0]
                sync = self._draws.below(100) < self._mix.commit_percent
                steps.append(self._step(operation, "any", sync))
        return tuple(steps)

    def _step(self, operation: str, which: str, sync: bool) -> Step:
        population, draws = self._population, self._draws
        if operation == "mkdir":
            return population.mkdir()
        if operation in ("list", "walk", "negative-stat"):
            directory = self._directories[draws.below(len(self._directories))]
            if operation == "negative-stat":
                return population.absent(directory, draws.below(1 << 20))
            return population.list(operation, directory)
        if operation in ("create", "create-empty") or not self._files:
            return self._create("create-empty" if operation == "create-empty" else "create", sync)
        file = self._choose(which)
        if operation in ("stat", "access", "chmod", "flock", "fsync"):
            return population.look(operation, file)
        if operation == "link":
            return population.link(file)
        if operation == "rename":
            return population.rename(file)
        if operation == "truncate":
            return population.truncate(file)
        if operation == "unlink":
            self._forget(file)
            return population.unlink(file)
        return self._transfer(operation, file, sync)

    def _transfer(self, operation: str, file: LiveFile, sync: bool) -> Step:
        population = self._population
        sizes = self._mix.reads if operation.endswith("read") else self._mix.writes
        length = max(1, sizes.quantile(self._draws.unit()))
        if operation == "read":
            return population.read(file, length)
        if operation == "rewrite":
            return population.rewrite(file, length, sync)
        if operation == "append" or (
            operation in ("next-write", "random-write") and not file.image.size_bytes
        ):
            return population.append(file, length, sync)
        if operation.startswith("next"):
            start, end = population.next_range(file, length)
        else:
            start, end = population.random_range(file, length, self._draws)
        if operation.endswith("-read"):
            return population.read_part(operation, file, start, end)
        return population.write_part(operation, file, start, end, sync)

    def _choose(self, which: str) -> LiveFile:
        if which == "first":
            file = self._files[0]
        elif which == "same" and self._last is not None and self._last.file_id in self._positions:
            file = self._last
        else:
            file = self._files[self._draws.below(len(self._files))]
        self._last = file
        return file

    def _create(self, operation: str, sync: bool) -> Step:
        directory = self._directories[self._draws.below(len(self._directories))]
        size = 0
        if operation != "create-empty":
            size = self._population.fileset.sizes.quantile(self._draws.unit())
        planned = self._population.extra(directory, size)
        step = self._population.create(planned, operation, sync)
        file = self._last = self._population.files[planned.file_id]
        self._positions[file.file_id] = len(self._files)
        self._files.append(file)
        return step

    def _forget(self, file: LiveFile) -> None:
        position, last = self._positions.pop(file.file_id), self._files.pop()
        if last is not file:
            self._files[position] = last
            self._positions[last.file_id] = position
