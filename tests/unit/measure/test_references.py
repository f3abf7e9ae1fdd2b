"""References: which paths are taken, and what becomes of the page cache before cold reads."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.measure.local import LocalClient
from tuner.errors import SpecError, WorkloadError
from tuner.measure import uncache
from tuner.measure.references import ReferencePath, ReferencePlan, install_references
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import Report, run_once
from tuner.model import PageCache

pytestmark = pytest.mark.slow

SMALL = Path(__file__).parents[2] / "data" / "small-workload.yaml"
SPEC: dict[str, Any] = yaml.safe_load(SMALL.read_text())
MEMORY = Path("/dev/shm")


@pytest.fixture
def disk(root: Path) -> Iterator[Path]:
    """A directory on a disk; temporary directories may be in memory."""
    path = root / "build" / f"reference-{os.getpid()}"
    path.mkdir(parents=True)
    yield path
    subprocess.run(["rm", "-r", path], check=True)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory, whose pages cannot be dropped."""
    path = MEMORY / f"fstune-reference-{os.getpid()}"
    path.mkdir()
    yield path
    subprocess.run(["rm", "-r", path], check=True)


def install(client: LocalClient, tmp_path: Path, path: Path, tuned: Path = MEMORY) -> ReferencePath:
    plan = ReferencePlan("here", str(path))
    workload = load_workload(str(SMALL))
    (reference,) = install_references(client, str(tmp_path), str(tuned), [plan], workload)
    return reference


def run(reference: ReferencePath) -> tuple[Report, list[PageCache]]:
    """Run the workload; also return what became of the page cache before each cold stage."""
    cold: list[PageCache] = []
    run_id = "r-1-ref1"
    report = run_once(reference.engine, run_id, 7, lambda: cold.append(reference.make_cold(run_id)))
    return report, cold


def test_a_run_on_a_disk_has_its_pages_dropped(tmp_path: Path, disk: Path) -> None:
    reference = install(LocalClient("client1"), tmp_path, disk)
    report, cold = run(reference)
    assert set(report.components) == {"writing", "large", "reading", "deleting"}
    assert cold == [PageCache.DROPPED]
    assert list(disk.iterdir()) == []


def test_what_is_in_memory_cannot_be_dropped(tmp_path: Path, memory: Path) -> None:
    reference = install(LocalClient("client1"), tmp_path, memory, tuned=Path("/proc"))
    assert run(reference)[1] == [PageCache.NOT_CONTROLLABLE]


def test_without_a_cold_stage_the_page_cache_is_not_dropped(tmp_path: Path, disk: Path) -> None:
    warm = tmp_path / "warm.yaml"
    stages = [stage | {"cache": "as-is"} for stage in SPEC["stages"]]
    warm.write_text(yaml.safe_dump(SPEC | {"stages": stages}))
    plan = ReferencePlan("here", str(disk))
    workload = load_workload(str(warm))
    client = LocalClient("client1")
    reference = ReferencePath.install(client, str(tmp_path), str(MEMORY), plan, workload)
    assert run(reference)[1] == []


def test_a_failed_run_names_the_cause_and_leaves_nothing_behind(tmp_path: Path, disk: Path) -> None:
    reference = install(LocalClient("client1"), tmp_path, disk)
    theirs = disk / "fstune-r-1-ref1"
    theirs.mkdir()
    with pytest.raises(WorkloadError, match="stage write: run-directory in mkdir of"):
        run(reference)
    theirs.rmdir()
    (tmp_path / "uncache.py").write_text("raise SystemExit('no such thing here')")
    with pytest.raises(WorkloadError, match="page cache cannot be dropped: no such thing here"):
        run(reference)
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("what", ["link", "link inside", "pipe inside", "device inside"])
def test_only_regular_files_are_opened(tmp_path: Path, what: str) -> None:
    """Whoever can write in the directory could have root open a device, or wait for a pipe."""
    directory = tmp_path / "fstune-r-1"
    match what:
        case "link":
            (tmp_path / "theirs").mkdir()
            directory.symlink_to(tmp_path / "theirs")
        case "link inside":
            directory.mkdir()
            (directory / "file").symlink_to("/etc/hostname")
        case "pipe inside":
            (directory / "below").mkdir(parents=True)
            os.mkfifo(directory / "below" / "file")
        case "device inside":
            if os.geteuid() != 0:
                pytest.skip("only root can make one")
            directory.mkdir()
            os.mknod(directory / "file", 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    program = Path(uncache.__file__)
    done = subprocess.run(
        [sys.executable, program, directory], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "Not a directory" in done.stderr or "file is not a file of the workload" in done.stderr


def test_leftovers_are_removed(tmp_path: Path, disk: Path) -> None:
    reference = install(LocalClient("client1"), tmp_path, disk)
    reference.engine.run_stage("write", "r-1-ref1", 7)
    assert [path.name for path in disk.iterdir()] == ["fstune-r-1-ref1"]
    reference.engine.clean_leftovers("r-")
    assert list(disk.iterdir()) == []


def test_invalid_reference_paths(tmp_path: Path, disk: Path, memory: Path) -> None:
    client = LocalClient("client1")
    with pytest.raises(SpecError, match=r"^references: here: /no/such on client1: .*No such file"):
        install(client, tmp_path, Path("/no/such"))
    with pytest.raises(SpecError, match="is not a directory but a regular file"):
        install(client, tmp_path, Path(sys.executable))
    with pytest.raises(SpecError, match="cannot be written to"):
        install(client, tmp_path, Path("/proc/self"))
    with pytest.raises(SpecError, match="is on the file system that is tuned"):
        install(client, tmp_path, memory)
    link = disk / "link"
    link.symlink_to(memory)
    with pytest.raises(SpecError, match="is on the file system that is tuned"):
        install(client, tmp_path, link)
    assert list(tmp_path.iterdir()) == []


def test_dropping_is_counted_in_whole_pages(disk: Path, memory: Path) -> None:
    for place, stays in ((disk, 0), (memory, 3 * 4096)):
        (place / "below").mkdir()
        (place / "empty").touch()
        (place / "below" / "file").write_bytes(b"x" * 9000)
        counts = uncache.drop(str(place))
        assert (counts["files"], counts["bytes"]) == (2, 9000)
        assert counts["resident_bytes"] == stays


def test_a_large_file_is_checked_in_pieces(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncache, "_WINDOW_BYTES", 8192)
    path = disk / "file"
    path.write_bytes(b"x" * 20000)
    with path.open("rb") as file:
        assert uncache._resident_bytes(file.fileno(), 20000) == 5 * 4096
    assert uncache.drop(str(disk))["resident_bytes"] == 0
