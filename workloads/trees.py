"""Plans the unpacking and the recursive deletion of a tree: one process, depth first."""

from __future__ import annotations

from collections.abc import Iterator

from workloads.files import PlannedFile, parent
from workloads.population import LiveFile, Population
from workloads.steps import Step


def extract(population: Population) -> Iterator[Step]:
    """Yield the steps that create each directory, its files, then its subdirectories."""
    files: dict[int, list[PlannedFile]] = {}
    for file in population.planned:
        files.setdefault(file.directory, []).append(file)
    below = _below(population)
    waiting = list(reversed(below[None]))
    while waiting:
        directory = waiting.pop()
        yield population.mkdir(directory)
        for file in files.get(directory, ()):
            yield population.create(file)
        waiting.extend(reversed(below.get(directory, ())))


def remove(population: Population) -> Iterator[Step]:
    """Yield the steps that list each directory and remove its subdirectories, files and itself."""
    files: dict[int, list[LiveFile]] = {}
    for file in population.files.values():
        files.setdefault(file.directory, []).append(file)
    below = _below(population)
    waiting = [(directory, False) for directory in reversed(below[None])]
    while waiting:
        directory, listed = waiting.pop()
        if not listed:
            yield population.list("list", directory)
            waiting.append((directory, True))
            waiting.extend((child, False) for child in reversed(below.get(directory, ())))
            continue
        for file in files.get(directory, ()):
            yield population.unlink(file)
        yield population.rmdir(directory)


def _below(population: Population) -> dict[int | None, list[int]]:
    fileset = population.fileset
    numbers = population.directories or range(fileset.directories)
    directories_below: dict[int | None, list[int]] = {None: []}
    for number in numbers:
        directories_below.setdefault(parent(fileset, number), []).append(number)
    return directories_below
