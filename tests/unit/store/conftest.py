"""A store of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.store import Store


@pytest.fixture
def state_directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(state_directory: Path) -> Iterator[Store]:
    with Store.open(state_directory) as opened:
        yield opened
