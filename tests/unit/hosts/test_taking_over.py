"""Hosts whose holder has died, or may have. The scripts really run, on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.hosts.place import OURS, PROVES, THEIRS, Place
from tests.waiting import wait_for
from tuner.errors import ConflictError, InUseError, TestbedError
from tuner.hosts import guard
from tuner.hosts import lease as leases
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector
from tuner.measure.driver import end_runs

pytestmark = pytest.mark.slow

ELSEWHERE = Owner(OURS.campaign, "elsewhere")
DIE = """
import os, signal, sys
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector

Hold.take(LocalConnector(), sys.argv[1], Owner("campaign-1", "here"), 90.0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def take_and_die(place: Place) -> None:
    subprocess.run([sys.executable, "-c", DIE, str(place.directory)], timeout=100)
    assert (place.directory / "lease").exists()


def be_silent(place: Place, age_s: float) -> None:
    """Let the last heartbeat be that old."""
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    (place.directory / "lease" / "heartbeat").write_text(f"{up_s - age_s:.0f}\n")


def test_another_machine_continues_a_campaign_long_before_its_hosts_put_themselves_back(
    place: Place,
) -> None:
    first = place.take(after_s=1800.0)
    path = place.journal()
    be_silent(place, 130.0)
    second = place.take(ELSEWHERE, after_s=1800.0)
    assert second.predecessor == ""
    assert path.exists()  # the original state is still to be restored, by the second
    with pytest.raises(TestbedError, match="has restored itself"):
        first.change(["true"])
    second.beat()
    for pid in place.watches():  # they would notice the end of the lease only after a while
        os.kill(pid, signal.SIGKILL)


def test_another_machine_waits_for_the_silence(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be allowed to continue a moment before: the heartbeats are sent apart."""
    monkeypatch.setattr(leases, "_DEAD_S", 2.0)
    place.take()
    place.take(ELSEWHERE).beat()


def test_another_machine_gives_up_when_there_is_a_heartbeat(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same campaign may be in two databases, one of them a copy."""
    pauses = 0

    def pause(_: float) -> None:
        nonlocal pauses
        pauses += 1
        hold.beat()

    hold = place.take()
    be_silent(place, 30.0)
    with monkeypatch.context() as patch:
        patch.setattr("tuner.hosts.lease.time.sleep", pause)
        with pytest.raises(ConflictError, match="by the same campaign on here, which sends heart"):
            place.take(ELSEWHERE)
    assert pauses == 1
    hold.beat()


def test_a_host_whose_holder_was_killed_is_taken_at_once(place: Place) -> None:
    take_and_die(place)
    place.journal()
    hold = place.take(THEIRS)
    assert place.proof == ["part"]
    hold.beat()


def test_workloads_of_a_holder_that_was_killed_are_ended_first(place: Place) -> None:
    """They keep a client in use."""
    take_and_die(place)
    place.journal(f"[ -e ../../ended ] || {{ echo in use; exit 1; }}\n{PROVES}")
    program = "import pathlib, sys; pathlib.Path(sys.path[0], 'ended').write_text(sys.argv[2])\n"
    (place.directory / "end_runs.py").write_text(program)
    hold = Hold.take(LocalConnector(), str(place.directory), THEIRS, 60.0, end_runs)
    hold.beat()
    assert hold.predecessor == "campaign-1"
    assert (place.directory / "ended").read_text() == "campaign-1"
    assert place.proof == ["part"]


@pytest.mark.parametrize("process", [None, "", "rubbish\n", "another:machine 1 1\n"])
def test_a_lease_that_does_not_prove_the_death_of_its_holder_is_respected(
    place: Place, process: str | None
) -> None:
    """Such as one of an earlier release."""
    take_and_die(place)
    path = place.directory / "lease" / "process"
    path.unlink() if process is None else path.write_text(process)
    advice = "fstune resume campaign-1, or fstune testbed restore"
    with pytest.raises(ConflictError, match=f"by campaign campaign-1 on here, .*{advice} FILE$"):
        place.take(THEIRS)
    place.take(OURS).beat()


def test_a_host_in_use_by_a_verification_says_so(place: Place) -> None:
    hold = place.take(replace(OURS, verifies=True))
    hold.change(["true"])
    dead = "if its process has died: fstune testbed restore FILE$"
    with pytest.raises(InUseError, match=f"by verification campaign-1 on here, .* or {dead}"):
        place.take(THEIRS)
    (place.directory / "lease" / "boot").write_text("another\n")
    with pytest.raises(TestbedError, match=r"may have changed; see 'fstune verify'$"):
        hold.beat()


def test_the_advice_about_an_application(place: Place) -> None:
    hold = place.take(Owner("a20261127-170224-bcdf", "here"))
    with pytest.raises(ConflictError, match=r"by application a2026.*fstune rollback a20261127-"):
        place.take(THEIRS)
    (place.directory / "lease" / "boot").write_text("another\n")
    with pytest.raises(TestbedError, match="may have changed; see 'fstune applications' for what"):
        hold.beat()


def test_another_process_is_not_taken_for_the_watch(place: Place) -> None:
    """Its process ID may be that of the watch, which has died, and its command line is its own."""
    hold = place.take()
    place.kill_watch()
    words = ["sh", "-c", "read line; : watch.sh"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd="/") as process:
        (place.directory / "watch.pid").write_text(f"{process.pid}\n")
        hold.beat()
        place.await_watch()
        place.kill_watch()
        (place.directory / "watch.pid").write_text(f"{process.pid}\n")
        (place.directory / "lease").rename(place.directory / "lease.expired")
        place.take(THEIRS).beat()
        assert process.stdin is not None
        process.stdin.close()


def test_the_process_that_keeps_others_from_changing_a_host_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was started by a change that left it the lock."""
    monkeypatch.setattr(guard, "_WAIT_S", 0.0)
    hold = place.take()
    daemon = int(hold.change(["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"]).stdout)
    try:
        wait_for(lambda: Path(f"/proc/{daemon}/comm").read_text() == "sleep\n", "the daemon")
        with pytest.raises(TestbedError, match=rf"under way there: {daemon} \(sleep\)$"):
            hold.change(["true"])
    finally:
        os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{daemon}/fd/9").exists(), "its end")
    hold.change(["true"])
