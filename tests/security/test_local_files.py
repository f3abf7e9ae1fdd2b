"""Attack: a local user has created files in a well-known place before fstune does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.cell import CellError, Cells
from tests.unit.hosts.test_supervisor import attend
from tuner.errors import TestbedError
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector
from tuner.hosts.put_back import restore_all
from tuner.store import Store

ROOT = os.geteuid() == 0
OTHER = 1234
as_root = pytest.mark.skipif(not ROOT, reason="only root can create another user's files")


def take(directory: Path) -> Hold:
    return Hold.take(LocalConnector(), str(directory), Owner("campaign-1", "here"), 60.0)


@as_root
@pytest.mark.parametrize("whose", ["itself", "above", "sticky-above"])
def test_a_restore_directory_of_another_user_is_refused(tmp_path: Path, whose: str) -> None:
    directory = tmp_path / "above" / "restore-here"
    directory.mkdir(parents=True, mode=0o700)
    match whose:
        case "itself":
            os.chown(directory, OTHER, OTHER)
        case "above":
            directory.parent.chmod(0o777)
        case "sticky-above":
            os.chown(directory.parent, OTHER, OTHER)
    with pytest.raises(TestbedError, match="must be a private directory"):
        take(directory)
    assert list(directory.iterdir()) == []
    proof = tmp_path / "proof"
    journal = directory / "restore" / "part"
    journal.mkdir(parents=True)
    (journal / "restore.sh").write_text(f"touch {proof}; echo done\n")
    with pytest.raises(TestbedError, match="must be a private directory"):
        restore_all(LocalConnector(), str(directory))
    assert not proof.exists()


@pytest.mark.parametrize(
    "how", ["writable", "link", "journal-writable", "script-writable", "linked"]
)
def test_a_script_that_others_can_write_is_not_run(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "restore-here"
    proof = tmp_path / "proof"
    journal = directory / "restore" / "part"
    journal.mkdir(parents=True, mode=0o700)
    script = journal / "restore.sh"
    script.write_text(f"touch {proof}; echo done\n")
    target = directory
    match how:
        case "writable":
            directory.chmod(0o777)
        case "link":
            target = tmp_path / "link"
            target.symlink_to(directory)
        case "journal-writable":
            journal.chmod(0o770)
        case "script-writable":
            script.chmod(0o666)
        case "linked":
            real = tmp_path / "elsewhere"
            journal.rename(real)
            journal.symlink_to(real)
    with pytest.raises(TestbedError, match=r"private directory|not ours alone"):
        restore_all(LocalConnector(), str(target))
    assert not proof.exists()


@pytest.mark.parametrize("planted", ["directory", "file", "link", "writable"])
def test_a_planted_directory_does_not_stop_detached_runs(tmp_path: Path, planted: str) -> None:
    """Detached commands are stored in a directory below /var/tmp with a well-known name."""
    place = tmp_path / f"runs-{os.geteuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    match planted:
        case "directory" if ROOT:
            place.mkdir(mode=0o700)
            os.chown(place, OTHER, OTHER)
        case "file":
            place.write_text("")
        case "link":
            place.symlink_to(elsewhere)
        case _:
            place.mkdir()
            place.chmod(0o777)
    first = attend(tmp_path, "sh", "-c", "date +%s.%N")
    assert first.ended == "exit"
    again = attend(tmp_path, "sh", "-c", "date +%s.%N", known=True)
    assert again.stdout == first.stdout  # the same run, found again
    assert list(elsewhere.iterdir()) == []
    assert not place.is_dir() or list(place.iterdir()) == []
    assert attend(tmp_path, "true", do="forget").ended == "forgotten"
    assert attend(tmp_path, "true", known=True).ended == "unknown"


def test_locks_and_databases_are_private(tmp_path: Path) -> None:
    """Anyone who can open a lock can hold it forever, and readers can lock a database."""
    state = tmp_path / "state"
    before = os.umask(0o022)
    try:
        with pytest.raises(CellError), Cells(state).use("try"):
            raise CellError("seen")
        with Store.open(state) as store:
            assert store.campaigns() == []
            modes = {path.name: path.stat().st_mode & 0o077 for path in state.rglob("*")}
    finally:
        os.umask(before)
    assert state.stat().st_mode & 0o077 == 0
    assert {"locks", "cell-try.use", "fstune.sqlite3"} <= modes.keys()
    assert set(modes.values()) == {0}


def test_permissions_left_open_by_an_earlier_release_are_fixed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "locks").mkdir(parents=True)
    (state / "locks" / "cell-try.use").touch(0o666)
    (state / "fstune.sqlite3").touch(0o644)
    state.chmod(0o755)
    with Cells(state).use("try"), Store.open(state):
        modes = {path.name: path.stat().st_mode & 0o077 for path in state.rglob("*")}
    assert set(modes.values()) == {0}
