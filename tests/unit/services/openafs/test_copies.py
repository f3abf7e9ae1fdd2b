"""Mounts of the kernel client in other mount namespaces: those that an unmount does not reach."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

import tuner.services.openafs
from tests.unit.services.openafs.kernel_client import Machine
from tests.unit.services.openafs.test_facts import facts
from tuner.errors import TestbedError
from tuner.services.openafs import facts as facts_module

DATA = Path(__file__).parents[3] / "data" / "openafs"
SCRIPT = files(tuner.services.openafs) / "scripts" / "kernel-copies.sh"


def add(proc: Path, pid: int, namespace: int, name: str, command: str = "") -> None:
    """Add a process, in a namespace with recorded mounts."""
    own = proc / str(pid)
    (own / "ns").mkdir(parents=True)
    (own / "ns" / "mnt").symlink_to(f"mnt:[{namespace}]")
    (own / "mountinfo").write_text((DATA / f"mountinfo-{name}.txt").read_text())
    (own / "cmdline").write_text(command.replace(" ", "\0"))


def run(proc: Path, mount: str = "/afs") -> subprocess.CompletedProcess[str]:
    argv = ["sh", str(SCRIPT), mount, str(proc)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def copies(proc: Path, host: str = "host") -> list[str]:
    """Those found beside process 1. ``host``: its mounts."""
    add(proc, 1, 1, host, "/sbin/init")
    done = run(proc)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["service", "host", "host-in-container", "without"])
def test_a_namespace_that_an_unmount_reaches_is_fine(tmp_path: Path, name: str) -> None:
    add(tmp_path, 812, 2, name)
    assert copies(tmp_path) == []


@pytest.mark.parametrize("name", ["private", "container", "second-place", "covered"])
def test_a_namespace_that_would_keep_the_mount_is_named(tmp_path: Path, name: str) -> None:
    """A container may be a slave of the client's own mount: that alone unmounts nothing there."""
    add(tmp_path, 812, 2, name, "/usr/sbin/smbd -F")
    assert copies(tmp_path) == ["812 (/usr/sbin/smbd -F)"]


def test_a_command_cannot_pass_for_another_process(tmp_path: Path) -> None:
    """Anybody may give a process any words, and be in a mount namespace."""
    add(tmp_path, 812, 2, "private", "x),\r1\t(/sbin/init\n4")
    assert copies(tmp_path) == ["812 (x   1  /sbin/init 4)"]


def test_an_unmount_is_passed_on_by_a_namespace_in_between(tmp_path: Path) -> None:
    add(tmp_path, 900, 3, "of-service", "sleep 600")
    assert copies(tmp_path) == ["900 (sleep 600)"]
    add(tmp_path, 812, 2, "service")
    assert run(tmp_path).stdout == ""


def test_each_namespace_is_named_once_by_its_first_process(tmp_path: Path) -> None:
    for pid, namespace in ((90, 1), (1000, 3), (99, 2), (101, 2), (700, 3)):
        name = "host" if namespace == 1 else "private"
        add(tmp_path, pid, namespace, name, f"daemon {pid}")
    assert copies(tmp_path) == ["99 (daemon 99)", "700 (daemon 700)"]


def test_a_mount_that_nothing_shares_reaches_nobody(tmp_path: Path) -> None:
    add(tmp_path, 812, 2, "private", "smbd")
    assert copies(tmp_path, "host-private") == ["812 (smbd)"]


def test_what_is_left_after_an_unmount_is_named(tmp_path: Path) -> None:
    add(tmp_path, 812, 2, "service", "smbd")
    assert copies(tmp_path, "without") == ["812 (smbd)"]


def test_a_process_that_has_just_ended_is_no_error(tmp_path: Path) -> None:
    add(tmp_path, 812, 2, "private")
    (tmp_path / "812" / "mountinfo").unlink()
    assert copies(tmp_path) == []


def test_namespaces_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    assert run(tmp_path).returncode != 0
    add(tmp_path, 812, 2, "private")
    assert run(tmp_path).returncode != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the namespaces of all")
def test_the_real_namespaces_can_be_read() -> None:
    done = subprocess.run(["sh", str(SCRIPT), "/afs"], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def replace(machine: Machine, text: str) -> None:
    """Replace the script that a restart calls."""
    (machine.here / "restore" / "kernel-copies.sh").write_text(text)


def test_a_client_that_is_mounted_in_another_namespace_is_left_alone(machine: Machine) -> None:
    client = machine.client()
    replace(machine, "echo '77 (smbd -F *)'; echo '80 (sh)'")
    why = r"mount namespace of: 77 \(smbd -F \*\) 80 \(sh\); end each, .*; nothing was stopped"
    with pytest.raises(TestbedError, match=why):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    replace(machine, "echo 'awk: not found' >&2; exit 127")
    with pytest.raises(TestbedError, match=r"cannot be read: awk: not found; nothing was stopped"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    assert client.restore().endswith("left as found: -chunksize 18 -afsdb")


def test_a_module_is_not_shut_down_while_its_files_are_mounted_elsewhere(machine: Machine) -> None:
    """A namespace may have been made while the client was stopped."""
    client = machine.client()
    machine.set("busy")
    (machine.here / "mounted").unlink()
    replace(machine, '! grep -qs stop "$HERE/calls" || echo "77 (smbd)"')
    with pytest.raises(TestbedError, match=r"of: 77 \(smbd\); .* the client stays stopped until"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == ["stop"]
    (machine.here / "busy").unlink()
    assert "started again as found" in client.restore()


def test_they_are_among_the_facts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts(machine).copies == ()
    text = b"echo '77 (smbd -F)'; echo \"80 ($1)\""
    monkeypatch.setattr(facts_module, "script", lambda package, name: text)
    assert facts(machine).copies == ("77 (smbd -F)", "80 (/afs)")
