"""Only directories with our marker are ever written to or deleted from."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.conftest import Engine
from workloads import rundir
from workloads.failure import WorkloadFailure

pytestmark = pytest.mark.slow


def _foreign(root: Path) -> None:
    root.mkdir()
    (root / "thesis.tex").write_text("ten years of work")


def _foreign_marker(root: Path) -> None:
    _foreign(root)
    (root / rundir.MARKER).write_text(json.dumps({"made_by": "somebody", "run_id": "run.1"}))


def _broken_marker(root: Path) -> None:
    _foreign(root)
    (root / rundir.MARKER).write_text("{")


def _other_run(root: Path) -> None:
    _foreign(root)
    (root / rundir.MARKER).write_text(json.dumps({"made_by": "fstune-workloads", "run_id": "2"}))


def _link(root: Path) -> None:
    target = root.parent.parent / "elsewhere"
    _foreign(target)
    marker = {"made_by": "fstune-workloads", "run_id": "run.1"}
    (target / rundir.MARKER).write_text(json.dumps(marker))
    root.symlink_to(target)


@pytest.mark.parametrize(
    "plant",
    [_foreign, _foreign_marker, _broken_marker, _other_run, _link],
    ids=lambda f: f.__name__,
)
def test_a_directory_that_is_not_ours_is_left_alone(
    engine: Callable[..., Engine], plant: Callable[[Path], None]
) -> None:
    own = engine()
    plant(own.root)
    for answer in (own.clean(), own.run("read"), own.run("write")):
        assert answer.status == 3
        assert answer.document["error"]["kind"] == "run-directory"
    assert answer.document["error"]["errno"] == errno.EEXIST
    assert (own.root / "thesis.tex").read_text() == "ten years of work"


def test_cleaning_does_not_follow_links_out_of_the_run_directory(
    engine: Callable[..., Engine], tmp_path: Path
) -> None:
    own = engine()
    assert own.run("write").status == 0
    _foreign(tmp_path / "outside")
    (own.root / "link").symlink_to(tmp_path / "outside")
    (own.root / "small.d00000" / "link").symlink_to(tmp_path / "outside")
    (own.root / "left-over").write_text("")
    assert own.clean().document["removed"] is True
    assert list(own.directory.iterdir()) == []
    assert (tmp_path / "outside" / "thesis.tex").exists()


def test_directories_nested_too_deeply_are_a_failure_and_stay(
    engine: Callable[..., Engine],
) -> None:
    own = engine()
    assert own.run("write").status == 0
    subprocess.run(["mkdir", "-p", "d/" * 2000], cwd=own.root, check=True)
    try:
        answer = own.clean()
        assert answer.status == 3
        assert answer.document["error"]["kind"] == "run-directory"
        assert "too deeply" in answer.document["error"]["message"]
        assert (own.root / rundir.MARKER).exists()
    finally:
        subprocess.run(["rm", "-rf", own.root / "d"], check=True)
    assert own.clean().document["removed"] is True


def test_cleaning_twice_is_no_error(engine: Callable[..., Engine]) -> None:
    own = engine()
    assert own.run("write").status == 0
    assert own.clean().document == {"ok": True, "run_id": "run.1", "removed": True}
    assert own.clean().document == {"ok": True, "run_id": "run.1", "removed": False}


def test_a_second_first_stage_does_not_touch_the_first(engine: Callable[..., Engine]) -> None:
    own = engine()
    assert own.run("write").status == 0
    assert own.run("write").document["error"]["errno"] == errno.EEXIST
    assert own.run("read").status == 0


def test_a_missing_directory_is_a_failure_with_its_errno(engine: Callable[..., Engine]) -> None:
    own = engine()
    own.directory.rmdir()
    error = own.run("write").document["error"]
    assert (error["kind"], error["errno"]) == ("run-directory", errno.ENOENT)


def test_too_little_room_is_found_before_anything_is_written(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    filesets = mapping["filesets"]
    filesets["hoard"] = {"files": 1000, "size": {"distribution": "fixed", "bytes": 1 << 40}}
    own = engine()
    error = own.run("write").document["error"]
    assert (error["kind"], error["errno"]) == ("no-space", errno.ENOSPC)
    assert list(own.directory.iterdir()) == []


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "-a", "a b", "a" * 65, "a\n"])
def test_a_run_id_cannot_lead_elsewhere(run_id: str) -> None:
    with pytest.raises(ValueError, match="run id"):
        rundir.path_of("/tmp", run_id)


def test_a_directory_without_its_marker_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    root = rundir.path_of(str(tmp_path), "one")
    with monkeypatch.context() as patched:
        patched.setattr("workloads.rundir.json.dump", full)
        with pytest.raises(WorkloadFailure, match="No space left"):
            rundir.create(root, {"run_id": "one"}, 1, 1)
    assert list(tmp_path.iterdir()) == []
    rundir.create(root, {"run_id": "one"}, 1, 1)


@pytest.mark.parametrize("moment", ["mkdir", "open", "rename", "unlink", "rmdir"])
def test_a_run_directory_can_be_removed_whenever_its_run_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The process is really killed: just after the step, so nothing of it cleans up."""
    root = rundir.path_of(str(tmp_path), "one")
    pid = os.fork()
    if pid == 0:
        step: Any = open if moment == "open" else getattr(os, moment)

        def fatal(*arguments: object, **options: object) -> None:
            step(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr("builtins.open" if moment == "open" else f"os.{moment}", fatal)
        rundir.create(root, {"run_id": "one"}, 1, 1)
        rundir.remove(root, "one")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    names = [path.name for path in tmp_path.iterdir()]
    assert names == ([] if moment == "rmdir" else names[:1])
    assert rundir.remove(root, "one") is bool(names)
    assert list(tmp_path.iterdir()) == []
    rundir.create(root, {"run_id": "one"}, 1, 1)


@pytest.mark.parametrize("number", [errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY])
def test_a_directory_that_is_not_yet_empty_is_removed_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    root = rundir.path_of(str(tmp_path), "one")
    rundir.create(root, {"run_id": "one"}, 1, 1)
    os.mkdir(f"{root}/mails")
    failures = [OSError(number, os.strerror(number))]
    rmdir = os.rmdir

    def late(path: str, **options: Any) -> None:
        if failures:
            raise failures.pop()
        rmdir(path, **options)

    monkeypatch.setattr("os.rmdir", late)
    assert rundir.remove(root, "one")
    assert failures == []
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    root = rundir.path_of(str(tmp_path), "one")
    os.mkdir(root)
    with pytest.raises(WorkloadFailure, match="File exists"):
        rundir.create(root, {"run_id": "one"}, 1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["fstune-one"]


@pytest.mark.parametrize("plant", [_foreign, _link], ids=lambda f: f.__name__)
def test_a_hidden_directory_with_foreign_files_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(rundir, "_CLEAN_PATIENCE_S", 0.0)
    directory = tmp_path / "volume"
    directory.mkdir()
    root = rundir.path_of(str(directory), "one")
    plant(directory / ".fstune-one")
    with pytest.raises(WorkloadFailure):
        rundir.remove(root, "one")
    assert (directory / ".fstune-one" / "thesis.tex").exists()
    if plant is _link:
        assert (tmp_path / "elsewhere" / rundir.MARKER).exists()
