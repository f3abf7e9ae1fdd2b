"""Attack: a local user starts a program that runs as root, such as one that asks for a password.

It belongs to root, but its name, its arguments and its directory are the user's choice.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tuner.errors import TestbedError
from tuner.hosts.local import LocalConnector
from tuner.hosts.other_holds import other_holds
from tuner.services.openafs import first_look, fuse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user"),
]

NOBODY = 65534


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory of the user, in one that everybody can enter."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@contextmanager
def borrowed(directory: Path, name: str, *arguments: str) -> Iterator[None]:
    """Run su, which waits for a password, under another name for a user in their directory."""
    program = directory / name
    program.symlink_to("/usr/bin/su")
    with subprocess.Popen(
        [program, "root", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=directory,
    ) as process:
        try:
            wait_for(lambda: name in Path(f"/proc/{process.pid}/comm").read_text(), "the program")
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert f"\nUid:\t{NOBODY}\t0\t0\t0\n" in status
            yield
        finally:
            process.kill()


def test_nobody_else_can_hold_a_host(theirs: Path, tmp_path: Path) -> None:
    (theirs / "lease").mkdir()
    (theirs / "lease" / "owner").write_text("campaign-9 elsewhere 1\n")
    with borrowed(theirs, "program", "-c", "watch.sh"):
        others = other_holds(LocalConnector(), str(tmp_path / "ours"))
        assert [each for each in others if str(theirs) in each] == []


def test_a_decoy_is_not_taken_for_a_client(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not the usual name, which clients of private cells on this machine have.
    monkeypatch.setattr(fuse, "PROGRAM", "afsd.theirs")
    with (
        borrowed(theirs, "afsd.theirs", "-c", "-cachedir /etc"),
        pytest.raises(TestbedError, match=r"neither afsd\.theirs nor the kernel client"),
    ):
        first_look.look_at_client(LocalConnector())
