"""How long a start of the kernel client may take, and that nothing gives up before its script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files

import pytest

import tuner.services.openafs
from tests.unit.services.openafs.kernel_client import Machine
from tuner.errors import TestbedError
from tuner.hosts import restore_all
from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.openafs import hosts, kernel_client
from tuner.services.openafs.bosserver import FileserverPlace

SCRIPT = (files(tuner.services.openafs) / "scripts" / "kernel-remount.sh").read_text()


def number(name: str, text: str = SCRIPT) -> float:
    (value,) = re.findall(rf"^{name}=(\d+)$", text, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize(
    ("unit", "limit_s"),
    [
        ("TimeoutStartUSec=1min 30s", 120),
        ("TimeoutStartUSec=5min 1.500s", 331),
        ("TimeoutStartUSec=10min 2s 3ms 4us", 632),
        ("TimeoutStartUSec=1h", 900),
        ("TimeoutStartUSec=1d 2h", 900),
        ("TimeoutStartUSec=infinity", 900),
        ("", 120),
    ],
)
def test_a_start_may_take_as_long_as_its_unit_allows(
    machine: Machine, unit: str, limit_s: int
) -> None:
    (machine.here / "start-limit").write_text(f"{unit}\n")
    machine.client().start(["-chunksize", "20"])
    assert machine.text("limits") == str(limit_s)


def test_so_may_a_start_after_a_cache_that_cannot_be_wiped(machine: Machine) -> None:
    (machine.here / "start-limit").write_text("TimeoutStartUSec=5min\n")
    machine.set("immutable")
    with pytest.raises(TestbedError, match="cannot be wiped"):
        machine.client().start(["-chunksize", "20"])
    assert machine.text("limits") == "330"


def longest_s() -> float:
    """The longest that the script can take, except for deleting and copying files."""
    code = "\n".join(line for line in SCRIPT.splitlines() if not line.lstrip().startswith("#"))
    steps = [float(limit) for limit in re.findall(r"\btimeout (\d+) ", code)]
    copies = code.count("refuse_copies ") - 1  # its own limit counts once already
    assert len(steps) > 8
    waits = number("leave_s") + number("ready_s") + 20.0 * copies
    return sum(steps) + waits + number("longest_start_s")


def test_the_caller_does_not_give_up_before_the_script() -> None:
    files_s = 60.0
    assert number("longest_start_s") == 900
    assert longest_s() + files_s <= kernel_client._REMOUNT_TIMEOUT_S


def test_restoring_has_that_time_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    client = machine.client()
    client.start(["-chunksize", "20"])
    limits = []
    change = LocalConnector.change

    def note(
        self: LocalConnector, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        if argv[-1].endswith("/restore.sh"):
            limits.append(timeout_s)
        return change(self, argv, input=input, timeout_s=timeout_s)

    monkeypatch.setattr(LocalConnector, "change", note)
    client.restore()
    assert limits == [kernel_client._RESTORE_TIMEOUT_S]
    assert limits[0] > kernel_client._REMOUNT_TIMEOUT_S


def test_restoring_a_whole_host_has_the_time_of_all_its_parts() -> None:
    script = (files("tuner.hosts") / "scripts" / "restore-all.sh").read_text()
    fileserver = FileserverPlace("192.0.2.9", "/var/lib/fstune", stop_s=hosts._LASTING_STOP_S)
    parts_s = kernel_client._RESTORE_TIMEOUT_S + fileserver.restore_s
    assert number("wait_s", script) + parts_s < restore_all._RESTORE_ALL_TIMEOUT_S
