"""What a machine must have for a cell, and what is said when it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.cell import CellError, machine, node

OVERLAY = "nodev\toverlay\n"


@pytest.fixture
def filesystems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let the kernel have other file systems than overlay; programs are looked up in ``bin``."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "open", lambda path, flags: os.dup(0))
    file, programs = tmp_path / "filesystems", tmp_path / "bin"
    file.write_text("nodev\tproc\n\text4\n")
    programs.mkdir()
    for tool in ("unshare", "nsenter", "ip", "tc"):
        (programs / tool).write_text("#!/bin/sh\n")
        (programs / tool).chmod(0o755)
    monkeypatch.setattr(machine, "_FILESYSTEMS", file)
    monkeypatch.setitem(node.ENVIRONMENT, "PATH", str(programs))
    return file


def test_a_missing_device_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CellError, match=r"/dev/fuse .*Operation not permitted.*modprobe fuse"):
        machine.require_machine()


def test_a_module_that_is_not_loaded_yet_is_loaded(filesystems: Path) -> None:
    """Debian's kernels have overlay as a module."""
    modprobe = filesystems.parent / "bin" / "modprobe"
    modprobe.write_text(f"#!/bin/sh\nprintf 'nodev\\toverlay\\n' >> '{filesystems}'\n")
    modprobe.chmod(0o755)
    machine.require_machine()
    assert filesystems.read_text().endswith(OVERLAY)


def test_a_kernel_without_overlay_is_reported(filesystems: Path) -> None:
    with pytest.raises(CellError, match=r"no overlay file system.*modprobe overlay"):
        machine.require_machine()


def test_programs_are_looked_up_where_nodes_do(
    filesystems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root shell of su has no /usr/sbin in its PATH."""
    filesystems.write_text(OVERLAY)
    monkeypatch.setenv("PATH", "/nowhere")
    machine.require_machine()
    (filesystems.parent / "bin" / "tc").unlink()
    with pytest.raises(CellError, match=r"^tc is missing: apt-get install iproute2$"):
        machine.require_machine()
