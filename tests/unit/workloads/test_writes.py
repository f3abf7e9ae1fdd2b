"""Waiting until data is stored detects data that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.steps import StepError
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
