"""Operations that write file data.

A write ends when the file can be opened, read and opened again: on some network filesystems
``close`` returns before the data is stored, and the next ``open`` of the file blocks until it is.
A single open is not enough: where FUSE passes the close on in the background, the open may overtake
it, more often the more processes write, whereas a read queues behind it. This is part of the timed
operation. Only reading everything back proves what was stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from workloads.content import Buffers
from workloads.steps import CheckResult, Job, PathOperation, StepError

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_WRITE = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
#: Up to so many records are sliced in advance.
PREPARED_RECORDS = 100_000

# Steps do not close their file on failure, because the process then ends.


def await_stored(path: str, end: int) -> None:
    """Wait until a closed file is stored up to byte ``end``.

    open(2), pread(2) of the last byte, close(2), open(2), close(2). Raises OSError, StepError.
    """
    descriptor = os.open(path, _READ)
    if end and not os.pread(descriptor, 1, end - 1):
        raise StepError("short-write", f"ends before byte {end}: what was written was not stored")
    os.close(descriptor)
    os.close(os.open(path, _READ))


class _Write:
    """Open, write a range a record at a time, close, and wait until it is stored."""

    flags = _WRITE
    seeks = True

    def __init__(self, job: Job) -> None:
        self._job = job
        self._steps = job.steps
        self._paths = job.paths()
        self._prepared: list[list[Buffers]] | None = None
        # Slicing the pool takes less than a microsecond per record, so large numbers of records are
        # sliced on the fly: prepared slices would take more memory than their data.
        if sum((s.end - s.start) // s.record_bytes + 1 for s in job.steps) <= PREPARED_RECORDS:
            self._prepared = [list(self._records(index)) for index in range(len(job.steps))]

    def perform(self, index: int) -> None:
        """open(2), [lseek(2)], write(2) or writev(2) a record at a time, [fsync(2)], close(2),
        and the calls of ``await_stored``.
        """
        step, path = self._steps[index], self._paths[index]
        write, writev = os.write, os.writev
        descriptor = os.open(path, self.flags, 0o644)
        if step.start and self.seeks:
            os.lseek(descriptor, step.start, os.SEEK_SET)
        left_bytes = step.end - step.start
        record_bytes = step.record_bytes
        for parts in self._prepared[index] if self._prepared else self._records(index):
            length = record_bytes if left_bytes > record_bytes else left_bytes
            count = write(descriptor, parts[0]) if len(parts) == 1 else writev(descriptor, parts)
            if count != length:
                raise StepError("short-write", f"{count} of {length} bytes of a record written")
            left_bytes -= length
        if step.sync:
            os.fsync(descriptor)
        os.close(descriptor)
        await_stored(path, step.end)

    def check(self) -> CheckResult:
        """Nothing to compare yet."""
        return CheckResult(moved_bytes=sum(step.end - step.start for step in self._steps))

    def _records(self, index: int) -> Iterable[Buffers]:
        step = self._steps[index]
        return self._job.content.records(step.image, step.start, step.end, step.record_bytes)


class Create(_Write):
    """Write one new file."""

    flags = _WRITE | os.O_CREAT | os.O_EXCL


class Overwrite(_Write):
    """Overwrite a range of an existing file, or all of it."""


class Append(_Write):
    """Write at the end of an existing file."""

    flags = _WRITE | os.O_APPEND
    seeks = False


class Truncate(PathOperation):
    """Truncate a file; the next stat or read verifies its length."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._ends = [step.end for step in job.steps]

    def perform(self, index: int) -> None:
        os.truncate(self._paths[index], self._ends[index])


class Fsync(PathOperation):
    """Flush a file's data to storage."""

    def perform(self, index: int) -> None:
        descriptor = os.open(self._paths[index], _WRITE)
        os.fsync(descriptor)
        os.close(descriptor)
