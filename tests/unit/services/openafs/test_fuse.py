"""The client in user space: what its script does, with a stand-in for its program."""

from __future__ import annotations

from pathlib import Path

from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.openafs.client import put_scripts


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


def test_the_lost_and_found_of_a_cache_partition_stays(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "lost+found").mkdir(parents=True)
    (cache / "CacheItems").write_text("cached")
    assert remount(tmp_path, cache).status == 0
    assert list(cache.iterdir()) == [cache / "lost+found"]
