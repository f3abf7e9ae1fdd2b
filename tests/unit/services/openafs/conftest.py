"""Fixtures shared by the tests of the kernel client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.openafs.kernel_client import Machine, machine_in


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine_in(tmp_path, monkeypatch)
