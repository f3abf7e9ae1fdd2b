"""Reading in bounded memory: all data is compared, off the clock, whatever its amount."""

from __future__ import annotations

import os
import time
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from workloads import reads
from workloads.content import Content
from workloads.image import Image
from workloads.reads import Read, ReadModifyWrite
from workloads.steps import CheckResult, Job, Step, StepError, Stopwatch

RECORD = 1 << 16
CONTENT = Content(7, "run")
SIZE = 40 * RECORD + 5


def _job(root: Path) -> Job:
    images = [Image(number).whole(SIZE, 1) for number in range(3)]
    for number, image in enumerate(images):
        with (root / str(number)).open("wb") as file:
            for parts in CONTENT.records(image, 0, SIZE, RECORD):
                file.writelines(parts)
    steps = [
        Step("read", str(number), image=image, end=SIZE, record_bytes=RECORD)
        for number, image in enumerate(images)
    ]
    return Job(str(root), steps, CONTENT, held_bytes=4 * RECORD)


def test_more_than_fits_is_compared_window_by_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _job(tmp_path)
    pauses = []
    paused = Stopwatch.paused

    def counted(watch: Stopwatch) -> object:
        pauses.append(watch)
        return paused(watch)

    monkeypatch.setattr(Stopwatch, "paused", counted)
    read = Read(job)
    before = time.monotonic_ns()
    for index in range(3):
        read.perform(index)
    elapsed_ns = time.monotonic_ns() - before
    assert read.check() == CheckResult(3 * SIZE, 3, 3 * SIZE)
    assert len(pauses) >= 3 * SIZE // (4 * RECORD) - 1
    assert set(map(id, pauses)) == {id(job.watch)}
    assert 0 < job.watch.paused_ns < elapsed_ns


@pytest.mark.parametrize(("number", "offset"), [(0, 3), (1, 20 * RECORD), (2, SIZE - 1)])
def test_a_wrong_byte_anywhere_is_found(tmp_path: Path, number: int, offset: int) -> None:
    job = _job(tmp_path)
    data = bytearray((tmp_path / str(number)).read_bytes())
    data[offset] ^= 1
    (tmp_path / str(number)).write_bytes(data)
    read = Read(job)

    def run() -> None:
        for index in range(3):
            read.perform(index)
        read.check()

    with pytest.raises(StepError, match=f"byte {offset} differs, and 0 more") as caught:
        run()
    assert (caught.value.kind, caught.value.index) == ("mismatch", number)


@pytest.mark.parametrize("in_advance", [True, False])
def test_new_data_takes_no_memory_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_advance: bool
) -> None:
    monkeypatch.setattr(reads, "PREPARED_RECORDS", 3 if in_advance else 0)
    job = _job(tmp_path)
    steps = [
        replace(
            step,
            start=start,
            end=start + RECORD,
            becomes=step.image.write(start, start + RECORD, 2),
        )
        for step, start in zip(job.steps, (0, 3, 7 * RECORD), strict=True)
    ]
    job = replace(job, steps=steps)
    tracemalloc.start()
    change = ReadModifyWrite(job)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The window takes as much as is read, up to its limit.
    assert most_bytes < len(steps) * RECORD + RECORD // 2
    for index, step in enumerate(steps):
        change.perform(index)
        expected = b"".join(CONTENT.parts(step.becomes, step.start, step.end))
        assert (tmp_path / step.path).read_bytes()[step.start : step.end] == expected
    moved = len(steps) * RECORD
    assert change.check() == CheckResult(2 * moved, len(steps), moved)


def test_new_data_is_flushed_if_the_step_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _job(tmp_path)
    steps = [
        replace(step, end=RECORD, becomes=step.image.write(0, RECORD, 2), sync=sync)
        for step, sync in zip(job.steps, (False, True, False), strict=True)
    ]
    change = ReadModifyWrite(replace(job, steps=steps))
    flushes: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: flushes.append(os.fstat(descriptor).st_ino))
    for index in range(len(steps)):
        change.perform(index)
    assert flushes == [os.stat(tmp_path / "1").st_ino]


def test_compressible_data_compresses_as_declared() -> None:
    content = Content(7, "run")
    content.make_pool(80)
    for percent, least, most in ((0, 0.99, 1.01), (80, 0.18, 0.25)):
        image = Image(1, (), percent).whole(1 << 20, 1)
        data = b"".join(b"".join(parts) for parts in content.records(image, 0, 1 << 20, 1 << 16))
        assert least < len(zlib.compress(data)) / len(data) < most
