"""The scripts that read counters, run by the shell of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.hosts.local import LocalConnector
from tuner.measure.diagnostics.probe import COMMON, Probe
from tuner.measure.diagnostics.process import TICKS_PER_S

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
    assert reading.missing == {"server process": f"root has no process called {path.name}"}
    assert reading.samples["host"].counters["busy_s"] > 0.0


def test_only_roots_program_counts(path: Path) -> None:
    """Anybody may give a process any name."""
    with program(path, user=65534):
        assert "server process" in probe(path).read().missing


#: Three processes do the same work. One has ended; one goes on as somebody else.
FORKING = """
work() { i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; }
(work) & wait
(work; echo ready; exec setpriv --reuid=65534 sleep 60) &
work; echo ready; wait
"""


def test_the_processes_that_a_program_has_started_count_too(path: Path) -> None:
    """A server may have a process per client, with that client's user."""
    shutil.copy("/bin/sh", path)
    with subprocess.Popen(
        [path, "-c", FORKING], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
            reading, glance = probe(path).read(), probe(path).glance()
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert reading.missing == glance.missing == {}
    own_s = (float(fields[11]) + float(fields[12])) / TICKS_PER_S
    server = reading.samples["server"]
    assert server.counters["cpu_s"] > 2.0 * own_s > 0.0
    assert glance.samples["server"].counters["cpu_s"] > 2.0 * own_s
    assert server.gauges["threads"] == 2.0
    assert server.life.split()[0] == str(process.pid)
