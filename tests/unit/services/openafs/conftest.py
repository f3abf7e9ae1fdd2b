"""Fixtures shared by the tests of the kernel client and of network limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.openafs.kernel_client import Machine, machine_in
from tests.unit.services.openafs.network_host import NetworkHost, host_in


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine_in(tmp_path, monkeypatch)


@pytest.fixture
def server_host(tmp_path: Path) -> NetworkHost:
    """A host whose fileserver runs."""
    host = host_in(tmp_path, "fs9")
    host.set_up_server("-p 12")
    return host


@pytest.fixture
def host(tmp_path: Path) -> NetworkHost:
    return host_in(tmp_path, "fs9")
