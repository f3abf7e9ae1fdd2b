"""The client in user space: what its script does, with a stand-in for its program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tuner.hosts.connector import CommandResult, Connector
from tuner.hosts.local import LocalConnector
from tuner.services.openafs.client import put_scripts
from tuner.services.openafs.fuse import FusePlace, look


def remount(here: Path, cache: Path) -> CommandResult:
    """Run the script where nothing is mounted yet, with a program that does nothing."""
    program = here / "fuse-stand-in"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    scripts = f"{here}/scripts"
    put_scripts(LocalConnector(), scripts, "fuse-daemons.sh", "fuse-remount.sh")
    argv = ["sh", f"{scripts}/fuse-remount.sh", f"{here}/afs", str(cache), str(here), str(program)]
    return LocalConnector().run(argv)


def test_a_cache_behind_a_symbolic_link_is_wiped(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "cache"
    (real / "D0").mkdir(parents=True)
    (real / "D0" / "V1").write_text("cached")
    link.symlink_to(real)
    assert remount(tmp_path, link).status == 0
    assert link.is_symlink()
    assert list(real.iterdir()) == []


def test_what_others_have_on_a_cache_partition_stays(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "lost+found").mkdir(parents=True)
    (cache / "CacheItems").write_text("cached")
    assert remount(tmp_path, cache).status == 0
    assert list(cache.iterdir()) == [cache / "lost+found"]
    (cache / "D3").mkdir()
    (cache / "D3" / "V9").write_text("cached")
    (cache / "notes").mkdir()
    (cache / "notes" / "V9").write_text("theirs")
    assert remount(tmp_path, cache).status == 0
    assert sorted(cache.iterdir()) == [cache / "lost+found", cache / "notes"]
    assert (cache / "notes" / "V9").exists()


class DaemonHost:
    """This machine, with a process as its afsd.fuse that is in two control groups."""

    host = "c1"

    def __init__(self, cgroup: Path, sight: str = "found 7 6100 /usr/sbin/afsd.fuse\nmount root\n"):
        self._cgroup, self._sight = cgroup, sight

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        if argv[:2] == ["sh", "-s"]:
            return CommandResult(tuple(argv), 0, self._sight, "")
        script = [word.replace("/proc/$1/cgroup", str(self._cgroup)) for word in argv]
        return LocalConnector().ask(script)


@pytest.mark.parametrize(
    ("cgroup", "main", "expected"),
    [
        ("0::/system.slice/afs-fuse.service\n", 7, ("afs-fuse.service",)),
        ("1:name=systemd:/system.slice/a.service\n0::/system.slice/a.service\n", 7, ("a.service",)),
        ("0::/system.slice/ssh.service\n", 9, ()),
        ("0::/user.slice/user-0.slice/session-3.scope\n", 7, ()),
        ("0::/\n", 7, ()),
    ],
)
def test_a_service_is_that_of_its_main_process(
    cgroup: str, main: int, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho MainPID={main}\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    host = cast("Connector", DaemonHost(tmp_path / "cgroup"))
    assert look(host, FusePlace("/afs", "/cache", "/afs/bench", "/fstune")) == (expected, "")


@pytest.mark.parametrize(
    "sight", ["mount none\n", "found 7 6100 /usr/sbin/afsd.fuse\nmount none\n"]
)
def test_a_client_that_is_not_mounted_is_no_client_to_tune(sight: str, tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("0::/\n")
    host = cast("Connector", DaemonHost(tmp_path / "cgroup", sight))
    services, problem = look(host, FusePlace("/mnt", "/cache", "/afs/bench", "/fstune"))
    assert services == ()
    assert problem.startswith("no afsd.fuse of root is mounted at /mnt: mount it")
