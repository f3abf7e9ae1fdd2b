"""The scripts that read counters, run by the shell of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.hosts.local import LocalConnector
from tuner.measure.diagnostics.probe import COMMON, Probe

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs are counted")


@contextmanager
def program(path: Path, *, user: int = 0) -> Iterator[None]:
    """Run a program as this user while the body runs."""
    shutil.copy("/bin/sleep", path)
    with subprocess.Popen([path, "60"], user=user) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
def path() -> Iterator[Path]:
    """Path for a program with a unique name, in a directory that every user can access."""
    program_path = Path("/tmp") / f"probed{os.getpid()}"
    yield program_path
    program_path.unlink(missing_ok=True)


def probe(path: Path) -> Probe:
    return Probe(LocalConnector(), "server", COMMON, (path.name,), (), "fs", "host")


def test_everything_of_a_running_program_is_read(path: Path) -> None:
    with program(path):
        reading = probe(path).read()
        glance = probe(path).glance()
    assert reading.missing == glance.missing == {}
    server = reading.samples["server"]
    assert set(server.counters) == {"cpu_s", "context_switches"}
    assert server.gauges["threads"] == 1.0
    assert server.gauges["peak_memory_bytes"] > 1e5
    assert server.life == glance.samples["server"].life != ""
    assert set(reading.samples["server.udp"].counters) == {
        "datagrams_received",
        "datagrams_sent",
        "receive_errors",
        "rcvbuf_errors",
        "sndbuf_errors",
    }
    before, after = (each.samples["host"].counters for each in (reading, glance))
    assert set(before) == {"busy_s", "irq_s", "softirq_s", "iowait_s", "steal_s", "elapsed_s"}
    assert after["elapsed_s"] >= before["elapsed_s"] > 0.0
    assert reading.machines == glance.machines
    assert reading.machines["host"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_program_that_does_not_run_is_missing_but_its_machine_is_not(path: Path) -> None:
    reading = probe(path).read()
    assert set(reading.missing) == {"server stat", "server status", "server switches"}
    assert reading.samples["host"].counters["busy_s"] > 0.0


def test_only_roots_program_counts(path: Path) -> None:
    """Anybody may give a process any name."""
    with program(path, user=65534):
        assert "server stat" in probe(path).read().missing
