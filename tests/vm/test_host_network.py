"""Network limits of a real kernel: set, verified and restored."""

from __future__ import annotations

from pathlib import Path

import pytest

import search_spaces
from deploy.vm import Guest
from tests.vm.client_host import ClientHost, client_host
from tuner.errors import ConfigurationError
from tuner.services.openafs.host_network import HostNetwork
from tuner.services.openafs.kernel_limits import RMEM_MAX, SETTINGS, WMEM_MAX

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(1200)]

SPACE = search_spaces.load("host-network")


def limits(client: ClientHost) -> dict[str, int]:
    """The current limits, as reported by sysctl."""
    return {name: int(client.output("sysctl", "-n", name)) for name in SETTINGS}


def test_limits_are_set_verified_and_restored(guest: Guest, state: Path) -> None:
    with client_host(guest, state) as client:
        before = limits(client)
        part = HostNetwork.attach([client.host], client.unit.place.directory, SPACE)
        assert part.initial == {}
        raised = 1 << (before[RMEM_MAX].bit_length() + 1)
        try:
            assert part.apply({"rmem_max": raised}) == "set"
            assert limits(client) == before | {RMEM_MAX: raised}
            assert part.read_back({"rmem_max": raised}) == {"rmem_max": raised}
            assert "host_network" in client.journals()
            with pytest.raises(ConfigurationError, match="fstune only raises it"):
                part.apply({"wmem_max": before[WMEM_MAX] - 1})
        finally:
            report = part.restore()
        assert f"set again as found: {RMEM_MAX}={before[RMEM_MAX]}" in report
        assert limits(client) == before
        assert client.journals() == []
