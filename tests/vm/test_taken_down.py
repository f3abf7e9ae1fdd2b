"""Nothing is left of a guest that was taken down. Runs last, because a later test would need a new
guest.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.cell.network import SERVER_ADDRESS
from deploy.vm import Guest, Guests
from tests.integration.conftest import Trace, mounts_below, process_in
from tests.vm.conftest import NAME
from tests.waiting import wait_for

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(3600)]


def interfaces() -> list[str]:
    listed = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    return sorted(line.split(":")[1] for line in listed.stdout.splitlines())


def everything_gone(trace: Trace, directory: Path, before: Sequence[str]) -> None:
    assert trace.is_gone(), trace.left()
    assert not directory.exists()
    assert mounts_below(directory) == []
    assert interfaces() == list(before)


def test_down_leaves_nothing(guest: Guest, guests: Guests) -> None:
    before = interfaces()
    trace = Trace.of(guest.cell)
    assert process_in(guest.cell.server, "qemu-system-x86_64") == guest.process
    assert guests.down(NAME)
    everything_gone(trace, guest.cell_directory, before)
    assert not guests.down(NAME)
    assert NAME not in guests.names()
    assert (
        SERVER_ADDRESS
        not in subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout
    )


def test_down_after_qemu_was_killed_leaves_nothing(guest: Guest, guests: Guests) -> None:
    before = interfaces()
    trace = Trace.of(guest.cell)
    os.kill(guest.process.pid, signal.SIGKILL)
    wait_for(lambda: not guest.process.is_alive(), "QEMU to end")
    loaded = guests.load(NAME)
    assert loaded is not None
    assert not loaded.is_alive()
    assert guests.down(NAME)
    everything_gone(trace, guest.cell_directory, before)
