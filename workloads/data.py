"""The operations on file data, and how they are kept honest.

Writing ends when the file can be opened again: on some network filesystems ``close`` returns
before the data is stored, and the next ``open`` of the file blocks until it is. That reopening is
part of the timed operation.

Reading puts everything into one buffer, allocated and touched beforehand and as large as all the
process reads in the phase; it is compared only after the clock of the phase has stopped. So the
timed part holds the system calls and nothing else, without sampling and without reading twice.
The price is memory, which the spec's check bounds.
"""

from __future__ import annotations

import os

from workloads.steps import Checked, Job, Mishap

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC

# No step closes its file when it fails: the process that met the failure ends.


class Create:
    """Create, write and close one new file, and wait until it can be opened again."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()
        self._files = [
            [
                (parts, sum(len(part) for part in parts))
                for parts in job.content.records(
                    step.file_id, step.generation, step.size_bytes, job.record_bytes
                )
            ]
            for step in job.steps
        ]
        self._moved_bytes = sum(step.size_bytes for step in job.steps)

    def perform(self, index: int) -> None:
        """open(2), writev(2) a record at a time, close(2), open(2), close(2)."""
        path = self._paths[index]
        descriptor = os.open(path, _CREATE, 0o644)
        for parts, wanted in self._files[index]:
            written = os.writev(descriptor, parts)
            if written != wanted:
                raise Mishap("short-write", f"{written} of {wanted} bytes of a record written")
        os.close(descriptor)
        os.close(os.open(path, _READ))

    def check(self) -> Checked:
        """Nothing to compare yet: only reading back proves the data."""
        return Checked(moved_bytes=self._moved_bytes)


class Read:
    """Read one whole file, to its end."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._paths = job.paths()
        self._held = memoryview(bytearray(sum(step.size_bytes for step in job.steps)))
        self._beyond = [bytearray(1)]
        self._records: list[list[list[memoryview]]] = []
        start = 0
        for step in job.steps:
            end = start + step.size_bytes
            self._records.append(
                [
                    [self._held[at : min(at + job.record_bytes, end)]]
                    for at in range(start, end, job.record_bytes)
                ]
            )
            start = end

    def perform(self, index: int) -> None:
        """open(2), readv(2) a record at a time until it gives nothing more, close(2)."""
        descriptor = os.open(self._paths[index], _READ)
        for record in self._records[index]:
            got = os.readv(descriptor, record)
            if got != len(record[0]):
                raise Mishap("short-read", f"{got} of {len(record[0])} bytes of a record read")
        if os.readv(descriptor, self._beyond):
            raise Mishap("mismatch", "goes on after its planned end")
        os.close(descriptor)

    def check(self) -> Checked:
        """Compare header and data of every file read."""
        for index, step in enumerate(self._job.steps):
            planned = self._job.content.records(
                step.file_id, step.generation, step.size_bytes, self._job.record_bytes
            )
            offset = 0
            for (view,), parts in zip(self._records[index], planned):
                found, wanted = bytes(view), b"".join(parts)
                if found != wanted:
                    raise Mishap("mismatch", _difference(found, wanted, offset), index)
                offset += len(wanted)
        size_bytes = len(self._held)
        return Checked(size_bytes, len(self._job.steps), size_bytes)


def _difference(found: bytes, wanted: bytes, offset: int) -> str:
    first = next(index for index in range(len(wanted)) if found[index] != wanted[index])
    wrong = sum(1 for index in range(len(wanted)) if found[index] != wanted[index])
    return f"byte {offset + first} differs, and {wrong - 1} more of this record"
