"""The zipapp: the same sources give the same bytes, and any python3 from 3.9 on can run them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from workloads import zipapp
from workloads.version import content_sha256, sources


def test_two_builds_are_the_same_to_the_byte(tmp_path: Path) -> None:
    one = zipapp.build(tmp_path / "one.pyz")
    before = os.umask(0o077)
    try:
        other = zipapp.build(tmp_path / "other.pyz")
    finally:
        os.umask(before)
    assert one.path.read_bytes() == other.path.read_bytes()
    assert one.sha256 == other.sha256 == content_sha256(sources())


def test_the_hash_changes_with_any_module() -> None:
    modules = sources()
    changed = {**modules, "spec.py": modules["spec.py"] + b"\n"}
    assert content_sha256(changed) != content_sha256(modules)


def test_it_replaces_an_older_build_and_leaves_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "w.pyz").write_bytes(b"old")
    built = zipapp.build(tmp_path / "w.pyz")
    assert list(tmp_path.iterdir()) == [built.path]
    assert os.access(built.path, os.X_OK)
    with zipfile.ZipFile(built.path) as archive:
        assert archive.namelist() == sorted(archive.namelist())
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to a pipe"])
def test_it_replaces_nothing_but_a_file(tmp_path: Path, kind: str) -> None:
    path, pipe = tmp_path / "w.pyz", tmp_path / "pipe"
    if kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(pipe)
        path = pipe if kind == "pipe" else path
    if kind == "link to a pipe":
        path.symlink_to(pipe)
    before = os.lstat(path)
    with pytest.raises(OSError, match=r"not a regular file"):
        zipapp.build(path)
    after = os.lstat(path)
    # Not the time of access: following a link changes it.
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert after.st_mtime_ns == before.st_mtime_ns


@pytest.mark.slow
def test_it_runs_without_any_package_and_from_any_directory(pyz: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(pyz), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "run one stage of a spec" in done.stdout


def rewrite(pyz: Path, suffix: str, change: Callable[[bytes], bytes]) -> None:
    """Change the engine's modules in a zipapp, those whose names have this suffix."""
    with zipfile.ZipFile(pyz) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(pyz, "w") as archive:
        for name, content in entries.items():
            ours = name.startswith("workloads/") and name.endswith(suffix)
            archive.writestr(name, change(content) if ours else content)


def run_help(pyz: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(pyz), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_bytecode_is_used_instead_of_the_sources(tmp_path: Path) -> None:
    with_it, without = tmp_path / "with.pyz", tmp_path / "without.pyz"
    for path, bytecode in ((with_it, True), (without, False)):
        path.write_bytes(zipapp.packed(bytecode=bytecode))
        rewrite(path, ".py", lambda _: b"raise SystemExit(9)")
    assert "run one stage of a spec" in run_help(with_it).stdout
    assert run_help(without).returncode == 9


def test_bytecode_has_no_path_of_this_machine(root: Path) -> None:
    assert str(root).encode() not in zipapp.packed(bytecode=True)


@pytest.mark.slow
def test_bytecode_of_another_python_is_ignored(tmp_path: Path) -> None:
    pyz = tmp_path / "w.pyz"
    pyz.write_bytes(zipapp.packed(bytecode=True))
    rewrite(pyz, ".pyc", lambda content: b"\0\0\r\n" + content[4:])
    assert "run one stage of a spec" in run_help(pyz).stdout


def test_the_sources_are_python_3_9() -> None:
    for name, content in sources().items():
        ast.parse(content, name, feature_version=(3, 9))


def test_only_the_standard_library_is_imported() -> None:
    for name, content in sources().items():
        for node in ast.walk(ast.parse(content, name)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            else:
                continue
            for module in names:
                top = module.partition(".")[0]
                assert top == "workloads" or top in sys.stdlib_module_names, (name, module)
