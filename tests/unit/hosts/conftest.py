"""Fixtures shared by the tests of holds and watches."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hosts.place import Place
from tests.waiting import wait_for
from tuner.hosts import hold as holding


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A host whose heartbeats are never trusted for any time: every change renews them first."""
    monkeypatch.setattr(holding, "TRUSTED_S", -1.0)
    new_place = Place(tmp_path / "restore-here")
    yield new_place
    for what in ("lease", "lease.expired", "restore"):
        shutil.rmtree(new_place.directory / what, ignore_errors=True)
    wait_for(lambda: new_place.watches() == [], "the watches' end")
