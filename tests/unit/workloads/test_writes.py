"""Waiting until data is stored detects data that is not; locks are those of a writer."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from workloads.content import Content
from workloads.names import Flock
from workloads.steps import Job, Step, StepError
from workloads.writes import await_stored


def test_data_that_was_not_stored_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    await_stored(str(path), 10)
    await_stored(str(path), 0)
    with pytest.raises(StepError, match="ends before byte 11") as caught:
        await_stored(str(path), 11)
    assert caught.value.kind == "short-write"


def test_a_missing_file_is_a_system_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await_stored(str(tmp_path / "file"), 1)


def test_a_file_is_locked_by_who_may_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over NFS an exclusive lock of a file that is open for reading fails."""
    (tmp_path / "file").touch()
    calls = []

    def note(descriptor: int, operation: int) -> None:
        calls.append((fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE, operation))

    monkeypatch.setattr("fcntl.flock", note)
    Flock(Job(str(tmp_path), [Step("flock", "file")], Content(7, "run"))).perform(0)
    assert calls == [(os.O_RDWR, fcntl.LOCK_EX), (os.O_RDWR, fcntl.LOCK_UN)]
