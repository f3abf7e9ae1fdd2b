"""Whether a workload can run on an OpenAFS testbed: enough clients, room for its files' names.

A directory of AFS has 1023 pages of 64 slots. Every page needs one of them, the first one twelve
more, and a name one to three. When no slot is left, creating a file fails with EFBIG.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from tuner.services.kind import Needs
from workloads import Spec
from workloads.files import directory_name, file_name
from workloads.filesets import MAX_FILES, FileSet
from workloads.phases import Mix, Phase
from workloads.rundir import MARKER

_PAGES, _SLOTS, _FIRST_SLOTS = 1023, 63, 51
_DOTS = 2


def mistakes_of_workload(clients: int, where: str, which: str, needs: Needs) -> list[str]:
    """Return why the workload cannot run. ``which`` has that many ``clients``."""
    work = needs.workload.spec
    messages = [f"{where}: workload {work.name}: {why}" for why in _overfull(work)]
    if clients < work.least_clients:
        messages.append(
            f"{where}: workload {work.name} needs at least {work.least_clients} clients, {which} "
            f"has {clients}"
        )
    return messages


def room_for(name: str) -> int:
    """Return how many names as long as this one a directory can hold."""
    slots = 1 + (len(name) + 16) // 32
    return (_FIRST_SLOTS - _DOTS) // slots + (_PAGES - 1) * (_SLOTS // slots)


def _overfull(spec: Spec) -> Iterator[str]:
    """Why there are more names in a directory than it can hold, for each such directory."""
    above = 1 / room_for(MARKER)
    for fileset in spec.filesets:
        each = _Names(spec, fileset)
        above += each.above()
        if each.within(fileset.directories) > 1:
            yield (
                f"file set {fileset.name}: a directory in AFS can hold "
                f"{room_for(file_name(0, 0)):,} files at most; at this scale {each.remedy()}"
            )
    if above > 1:
        yield (
            f"a directory in AFS can hold {room_for(''):,} others at most, half as many if their "
            "names are long, and a run has those of all file sets in one: use fewer directories, "
            "or a fanout"
        )


class _Names:
    """The names of a file set; amounts are shares of what a directory can hold."""

    def __init__(self, spec: Spec, fileset: FileSet) -> None:
        self._fileset = fileset
        own = [
            (phase, stage.processes)
            for stage in spec.stages
            for phase in stage.phases
            if phase.fileset.name == fileset.name
        ]
        self._processes = max((processes for _, processes in own), default=1)
        self._most_files = self._most_extra = 0.0
        self._extra_directories = 0.0
        files = extra = 0.0
        for phase, _ in own:
            files, extra = _after(phase, files, extra)
            self._most_files = max(self._most_files, files)
            self._most_extra = max(self._most_extra, extra)
            if phase.mix is not None:
                self._extra_directories += phase.mix.operations * _share(phase.mix, "mkdir")

    def within(self, directories: int) -> float:
        """The names in each directory, if there were so many directories."""
        # Renaming or linking a file takes another name for a moment.
        names = float(ceil(self._most_files / directories) + self._processes)
        # In a mix, a process adds files only to directories of its own.
        names += self._most_extra / self._processes / max(1, directories // self._processes)
        share = names / room_for(file_name(self._fileset.files - 1, 0))
        if self._fileset.fanout:
            below = min(self._fileset.fanout, max(0, directories - 1))
            share += below / room_for(f"d{directories:05d}")
        return share

    def remedy(self) -> str:
        """What to change so that every directory can hold its names."""
        for number in range(self._fileset.directories + 1, MAX_FILES + 1):
            if self.within(number) <= 1:
                return f"it needs {number} directories at least, not {self._fileset.directories}"
        return "it needs a smaller fanout"

    def above(self) -> float:
        """Its directories in the run directory."""
        fileset = self._fileset
        tops = 1 if fileset.fanout else fileset.directories
        share = tops / room_for(directory_name(fileset, 0 if fileset.fanout else tops - 1))
        return share + self._extra_directories / room_for(
            directory_name(fileset, fileset.directories)
        )


def _after(phase: Phase, files: float, extra: float) -> tuple[float, float]:
    """How many planned and how many more files there are after a phase, as to be expected."""
    operation, fileset = phase.operation, phase.fileset
    if operation in ("create", "extract", "postmark-create"):
        return float(fileset.files), 0.0
    if operation in ("unlink", "remove-tree", "postmark-delete"):
        return 0.0, 0.0
    if operation == "postmark-transactions" and fileset.postmark is not None:
        rules = fileset.postmark
        growth = rules.transactions * (2 * rules.create_bias / 10 - 1)
        return min(2.0 * fileset.files, max(0.0, files + growth)), 0.0
    if phase.mix is not None:
        growth = _share(phase.mix, "create", "create-empty") - _share(phase.mix, "unlink")
        extra += phase.mix.operations * growth
        return max(0.0, files + min(0.0, extra)), max(0.0, extra)
    return files, extra


def _share(mix: Mix, *operations: str) -> float:
    """The share of these operations in a mix."""
    weights = mix.choose or tuple((step.operation, 1.0) for step in mix.cycle)
    matching = sum(weight for name, weight in weights if name in operations)
    return matching / sum(weight for _, weight in weights)
