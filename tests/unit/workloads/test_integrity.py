"""Anything wrong with the files voids the run; the failure names operation, path and errno."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.conftest import Engine
from workloads import rundir
from workloads.engine import RunOptions, run_stage
from workloads.failure import WorkloadFailure
from workloads.spec import Spec, parse

pytestmark = pytest.mark.slow

FILE = "small.d00001/f0000001"


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def _swap(path: Path, other: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(6000))


def _cut(path: Path) -> None:
    os.truncate(path, 10)


def _remove(path: Path) -> None:
    path.unlink()


def _link(path: Path) -> None:
    (path.parent / f"{path.name}.link").touch()


INJURIES: list[tuple[str, Callable[[Path], object], str, str, str, int | None, str]] = [
    ("header", lambda p: _flip(p, 20), "read", "mismatch", FILE, None, "byte 20 differs"),
    ("data", lambda p: _flip(p, 4097), "read", "mismatch", FILE, None, "byte 4097 differs"),
    ("swapped", lambda p: _swap(p, p.parent / "f0000004"), "read", "mismatch", "", None, "byte 40"),
    ("cut", lambda p: os.truncate(p, 4095), "read", "short-read", FILE, None, "4095 of 4096"),
    ("longer", lambda p: os.truncate(p, 6001), "read", "mismatch", FILE, None, "planned end"),
    ("gone", _remove, "read", "os-error", FILE, errno.ENOENT, "No such file"),
    ("folder", _replace_by_directory, "read", "os-error", FILE, errno.EISDIR, "Is a directory"),
    ("size", lambda p: os.truncate(p, 1), "stat", "mismatch", FILE, None, "1 bytes long, not 6000"),
    ("kind", _replace_by_directory, "stat", "mismatch", FILE, None, "not a regular file"),
    (
        "intruder",
        lambda p: (p.parent / "core").touch(),
        "list",
        "mismatch",
        "small.d00001",
        None,
        "missing [], not planned ['core']",
    ),
    (
        "missing",
        _remove,
        "list",
        "mismatch",
        "small.d00001",
        None,
        "missing ['f0000001'], not planned []",
    ),
    (
        "present",
        lambda p: (p.parent / "n0000001").touch(),
        "negative-stat",
        "mismatch",
        "small.d00001/n0000001",
        None,
        "nothing ever created it",
    ),
    ("undead", _remove, "unlink", "os-error", FILE, errno.ENOENT, "No such file"),
    (
        "full",
        lambda p: (p.parent / "core").touch(),
        "rmdir",
        "os-error",
        "small.d00001",
        errno.ENOTEMPTY,
        "not empty",
    ),
    ("zeros", _zeros, "random-read", "mismatch", FILE, None, "differs"),
    ("zeros", _zeros, "read-modify-write", "mismatch", FILE, None, "differs"),
    ("cut", _cut, "random-read", "short-read", FILE, None, "of 4096 bytes"),
    ("gone", _remove, "access", "mismatch", FILE, None, "does not exist"),
    ("cut", _cut, "walk", "mismatch", "small.d00001", None, "f0000001 is 10 bytes long, not 6000"),
    ("gone", _remove, "flock", "os-error", FILE, errno.ENOENT, "No such file"),
    ("taken", _link, "link", "os-error", FILE, errno.EEXIST, "File exists"),
    ("gone", _remove, "append", "os-error", FILE, errno.ENOENT, "No such file"),
    ("gone", _remove, "rewrite", "os-error", FILE, errno.ENOENT, "No such file"),
]


def _spec(mapping: dict[str, Any], *operations: str) -> dict[str, Any]:
    """Return the spec with small files of 6000 bytes and only these operations in stage two."""
    mapping["filesets"]["small"]["size"] = {"distribution": "fixed", "bytes": 6000}
    phases = [{"operation": name, "fileset": "small", "component": "only"} for name in operations]
    mapping["stages"] = [
        mapping["stages"][0],
        {"name": "second", "cache": "cold", "phases": phases},
        {"name": "last", "cache": "as-is", "phases": [{"operation": "stat", "fileset": "big"}]},
    ]
    mapping["weights"] = {"stream": 0.25, "write": 0.25, "only": 0.5}
    return mapping


@pytest.mark.parametrize(
    ("injury", "operation", "kind", "path", "number", "message"),
    [case[1:] for case in INJURIES],
    ids=[f"{case[2]}-{case[0]}" for case in INJURIES],
)
def test_an_injury_voids_the_run(
    engine: Callable[..., Engine],
    mapping: dict[str, Any],
    injury: Callable[[Path], object],
    operation: str,
    kind: str,
    path: str,
    number: int | None,
    message: str,
) -> None:
    before = ("unlink",) if operation == "rmdir" else ()
    own = engine(**_spec(mapping, *before, operation))
    assert own.run("write").status == 0
    injury(own.root / FILE)
    answer = own.run("second")
    assert answer.status == 3
    assert answer.document["ok"] is False
    assert "components" not in answer.document
    error = answer.document["error"]
    assert (error["kind"], error["operation"], error["errno"]) == (kind, operation, number)
    assert error["path"].startswith(str(own.root / path))
    assert message in error["message"]
    assert own.root.exists()
    assert own.clean().document == {"ok": True, "run_id": "run.1", "removed": True}
    assert list(own.directory.iterdir()) == []


def test_an_existing_file_is_not_overwritten(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    changed = _spec(mapping, "create")
    del changed["stages"][0]["phases"][-1]
    own = engine(**changed)
    assert own.run("write").status == 0
    (own.root / FILE).write_text("somebody else's")
    error = own.run("second").document["error"]
    assert (error["kind"], error["operation"]) == ("os-error", "create")
    assert (error["path"], error["errno"]) == (str(own.root / FILE), errno.EEXIST)
    assert (own.root / FILE).read_text() == "somebody else's"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"seed": 8}, "seed is '7'"), ({"processes": 3}, "spec_sha256 is")],
)
def test_a_later_stage_must_belong_to_the_same_run(
    engine: Callable[..., Engine], mapping: dict[str, Any], wrong: dict[str, int], complaint: str
) -> None:
    own = engine()
    assert own.run("write").status == 0
    if "processes" in wrong:
        own.spec.write_text(own.spec.read_text().replace('"processes": 2', '"processes": 3'))
    answer = own.run("read", seed=wrong.get("seed", 7))
    assert answer.status == 3
    assert answer.document["error"]["kind"] == "run-directory"
    assert complaint in answer.document["error"]["message"]


def test_a_short_write_and_a_full_volume_void_the_run(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    """With a limit on file sizes, the write that crosses it is short and the next one fails."""
    mapping["filesets"]["big"] |= {"record_bytes": 4096}
    for limit, kind, number in ((6000, "short-write", None), (8192, "os-error", errno.EFBIG)):
        own = engine(**mapping)
        done = subprocess.run(
            ["prlimit", f"--fsize={limit}", *own.arguments("write")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 3
        error = json.loads(done.stdout)["error"]
        assert (error["kind"], error["operation"], error["errno"]) == (kind, "create", number)
        assert error["path"] == str(own.root / "big.d00000/f0000000")
        assert own.clean().document["removed"] is True
        own.directory.rmdir()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Yield a directory that any user can reach."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_permission_denied_is_named(mapping: dict[str, Any], open_directory: Path) -> None:
    spec = parse(_spec(mapping, "read"))
    run_stage(spec, "write", str(open_directory), "run.1", 7, RunOptions(print))
    root = Path(rundir.path_of(str(open_directory), "run.1"))
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)
    (root / FILE).chmod(0)
    failure = _run_as_nobody(spec, open_directory)
    assert (failure.failure.kind, failure.failure.operation) == ("os-error", "read")
    assert failure.failure.path == str(root / FILE)
    assert failure.failure.errno == errno.EACCES


def _run_as_nobody(spec: Spec, directory: Path) -> WorkloadFailure:
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(WorkloadFailure) as caught:
            run_stage(spec, "second", str(directory), "run.1", 7, RunOptions(print))
    finally:
        os.seteuid(before)
    return caught.value
