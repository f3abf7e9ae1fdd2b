"""Operations that read file data, and how that data is verified.

Data is read into a window of memory that was allocated and touched in advance, and is compared with
what was written once the clock of the phase has stopped. When the window is full, the process's
clock is paused while the window is compared, and the window is reused. So the timed part consists
of the system calls only, nothing is sampled or read twice, and memory is bounded whatever the
amount of data.
"""

from __future__ import annotations

import os

from workloads.content import Buffers
from workloads.steps import CheckResult, Job, StepError
from workloads.writes import PREPARED_RECORDS, await_stored

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_READ_WRITE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class _Window:
    """Data that was read but not yet compared."""

    def __init__(self, job: Job) -> None:
        self._job = job
        most = sum(step.end - step.start for step in job.steps)
        largest = max((min(s.record_bytes, s.end - s.start) for s in job.steps), default=0)
        self._memory = memoryview(bytearray(max(largest, min(most, job.held_bytes))))
        self._used_bytes = 0
        self._pieces: list[tuple[int, int, memoryview]] = []
        self._compared_bytes = 0

    def take(self, index: int, start: int, length: int) -> memoryview:
        """Return memory for ``length`` bytes of step ``index``, at offset ``start`` of its file."""
        used_bytes = self._used_bytes
        if used_bytes + length > len(self._memory):
            with self._job.watch.paused():
                self.compare()
            used_bytes = 0
        view = self._memory[used_bytes : used_bytes + length]
        self._used_bytes = used_bytes + length
        self._pieces.append((index, start, view))
        return view

    def compare(self) -> int:
        """Compare and empty the window; return the total number of bytes compared so far."""
        content, steps = self._job.content, self._job.steps
        for index, start, view in self._pieces:
            data = bytes(view)
            expected = b"".join(content.parts(steps[index].image, start, start + len(view)))
            if data != expected:
                raise StepError("mismatch", _difference(data, expected, start), index)
            self._compared_bytes += len(expected)
        self._pieces.clear()
        self._used_bytes = 0
        return self._compared_bytes


class _Reading:
    """Base class of the reading operations."""

    def __init__(self, job: Job) -> None:
        self._steps = job.steps
        self._paths = job.paths()
        self._window = _Window(job)

    def check(self) -> CheckResult:
        """Compare the data that has not been compared yet."""
        compared = self._window.compare()
        return CheckResult(compared, len(self._steps), compared)


class Read(_Reading):
    """Read one whole file, to its end."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._beyond = [bytearray(1)]

    def perform(self, index: int) -> None:
        """open(2), readv(2) a record at a time until the end of the file, close(2)."""
        step, take, readv = self._steps[index], self._window.take, os.readv
        descriptor = os.open(self._paths[index], _READ)
        at, end, record_bytes = step.start, step.end, step.record_bytes
        while at < end:
            length = record_bytes if at + record_bytes < end else end - at
            count = readv(descriptor, [take(index, at, length)])
            if count != length:
                raise StepError("short-read", f"{count} of {length} bytes of a record read")
            at += length
        if readv(descriptor, self._beyond):
            raise StepError("mismatch", "goes on after its planned end")
        os.close(descriptor)


class ReadRange(_Reading):
    """Read a part of one file."""

    def perform(self, index: int) -> None:
        step = self._steps[index]
        descriptor = os.open(self._paths[index], _READ)
        length = step.end - step.start
        if length:
            view = self._window.take(index, step.start, length)
            count = os.preadv(descriptor, [view], step.start)
            if count != length:
                raise StepError("short-read", f"{count} of {length} bytes read")
        os.close(descriptor)


class ReadModifyWrite(_Reading):
    """Read a part of one file and overwrite it; the next read must return the new data."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._job = job
        self._prepared: list[Buffers] | None = None
        if len(job.steps) <= PREPARED_RECORDS:
            self._prepared = [self._new(index) for index in range(len(job.steps))]

    def perform(self, index: int) -> None:
        """open(2), preadv(2), pwritev(2), [fsync(2)], close(2), and the calls of
        ``await_stored``.
        """
        step, path = self._steps[index], self._paths[index]
        descriptor = os.open(path, _READ_WRITE)
        length = step.end - step.start
        if length:
            view = self._window.take(index, step.start, length)
            count = os.preadv(descriptor, [view], step.start)
            if count != length:
                raise StepError("short-read", f"{count} of {length} bytes read")
            parts = self._prepared[index] if self._prepared else self._new(index)
            written_bytes = os.pwritev(descriptor, parts, step.start)
            if written_bytes != length:
                raise StepError("short-write", f"{written_bytes} of {length} bytes written")
        if step.sync:
            os.fsync(descriptor)
        os.close(descriptor)
        await_stored(path, step.end)

    def check(self) -> CheckResult:
        """Compare the data read; the same amount was written."""
        checked = super().check()
        return CheckResult(2 * checked.moved_bytes, checked.verified_files, checked.verified_bytes)

    def _new(self, index: int) -> Buffers:
        """The new data of a step: slices of the pool, so that it takes no memory of its own."""
        step = self._steps[index]
        return self._job.content.parts(step.becomes, step.start, step.end)


def _difference(data: bytes, expected: bytes, offset: int) -> str:
    first = next(index for index in range(len(expected)) if data[index] != expected[index])
    wrong = sum(1 for index in range(len(expected)) if data[index] != expected[index])
    return f"byte {offset + first} differs, and {wrong - 1} more of this record"
