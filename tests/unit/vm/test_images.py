"""Building an image, with a fake builder: secrets, leftovers and completeness."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cell import CellError, Node
from deploy.cell.process import ProcessId
from deploy.vm import GuestOptions, Guests, Images, image, recipe
from tuner.cli import vm

PASSWORD = "http://ada:pass-word@proxy.example:3128"
#: Runs in place of the builder's commands: prints its proxy setting and its arguments.
_SHOW = "import os, sys; print(os.environ.get('http_proxy'), sys.argv[1:]); sys.exit(3)"
_SLEEP = "import time; time.sleep(60)"


class _Builder(Node):
    """A node that runs a script on this machine instead of every command."""

    script = _SHOW

    def enter(self, argv: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", self.script, *argv]


class _Slow(_Builder):
    script = _SLEEP


def make_builder(kind: type[_Builder], directory: Path) -> _Builder:
    own = ProcessId.of(os.getpid())
    builder = kind("builder", directory, own, own)
    builder.shared.mkdir()
    return builder


def ignore(text: str) -> None:
    """Ignore a message."""


def bootstrap(builder: Node) -> str:
    """Run a build that fails, and return its error message."""
    with pytest.raises(CellError) as failed:
        image._bootstrap(builder, "root", recipe.PACKAGES, ignore)
    return str(failed.value)


@pytest.mark.slow
def test_the_password_of_a_proxy_is_not_among_the_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", PASSWORD)
    bootstrap(make_builder(_Builder, tmp_path))
    environment, _, arguments = (tmp_path / "shared/root.log").read_text().partition(" ")
    assert environment == PASSWORD
    assert "mmdebstrap" in arguments
    assert "pass-word" not in arguments


@pytest.mark.slow
def test_the_password_of_a_proxy_is_not_in_the_error_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", PASSWORD)
    monkeypatch.setattr(image, "_MOST_S", 0.1)
    assert bootstrap(make_builder(_Slow, tmp_path)) == "mmdebstrap did not finish within 0 s"


def test_a_build_that_fails_does_not_wait_for_the_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The root file system and the kernel module are built concurrently."""
    stopped = threading.Event()

    class Stoppable(Node):
        def stop(self) -> None:
            stopped.set()

    def bootstrap(builder: Node, target: str, *ignored: object) -> None:
        if target == "root":
            raise CellError("no route to the packages")
        assert stopped.wait(60.0)

    monkeypatch.setattr(image, "_bootstrap", bootstrap)
    own = ProcessId.of(os.getpid())
    builder = Stoppable("builder", tmp_path, own, own)
    with pytest.raises(CellError, match="no route"):
        Images(tmp_path)._make(builder, image.Stages(ignore, ignore))
    assert stopped.is_set()


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a suitable machine that has no packages."""

    def refuse(*ignored: object, **names: object) -> Path:
        raise CellError("no packages")

    for name in ("deploy.vm.image.require_machine", "deploy.vm.guest.require_machine"):
        monkeypatch.setattr(name, lambda: None)
    monkeypatch.setattr("deploy.vm.qemu.require_machine", lambda options: None)
    monkeypatch.setattr(image, "ensure_private_packages", refuse)


@pytest.mark.usefixtures("open_umask", "no_packages")
def test_a_state_directory_created_by_a_build_is_private(tmp_path: Path) -> None:
    state = tmp_path / "above" / "state"
    with pytest.raises(CellError, match="no packages"):
        Images(state).ensure(ignore)
    assert [mode(path) for path in (state, state / "images")] == [0o700, 0o700]


@pytest.mark.usefixtures("open_umask", "no_packages")
def test_the_console_log_of_a_guest_that_does_not_start_is_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The log reveals what the guest consists of and what went wrong in it."""
    guests = Guests(tmp_path)
    complete = image.Image(tmp_path, "6.1.0", "1.8.9", {})
    monkeypatch.setattr(guests.images, "ensure", lambda *ignored: complete)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "console-of-vm.log").write_text("of an earlier one, for all to read")
    monkeypatch.setattr(guests, "_start", lambda *ignored: boot(tmp_path / "cells/vm"))
    with pytest.raises(CellError, match="does not boot"):
        guests.up("vm", GuestOptions())
    log = tmp_path / "console-of-vm.log"
    assert (log.read_text(), mode(log)) == ("Kernel panic", 0o600)
    assert Guests(tmp_path).names() == []


def boot(cell: Path) -> None:
    """Behave like a guest that does not boot."""
    shared = cell / "server/shared/vm"
    shared.mkdir(parents=True)
    (shared / "console.log").write_text("Kernel panic")
    raise CellError("does not boot")


@pytest.mark.parametrize("text", ["", '{"kernel": "6.1.0"', "[]", "{}", "null", "\0\0"])
def test_a_manifest_truncated_by_a_crash_counts_as_missing(tmp_path: Path, text: str) -> None:
    directory = tmp_path / "images" / recipe.digest()
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text(text)
    assert Images(tmp_path).current() is None


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Record the files and directories that are synced: inode number -> name at that time."""
    names: dict[int, str] = {}
    really = os.fsync

    def note(descriptor: int) -> None:
        really(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        names[path.stat().st_ino] = path.name

    monkeypatch.setattr(os, "fsync", note)
    return names


def test_an_image_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, synced: dict[int, str]
) -> None:
    ready, final = tmp_path / "ready", tmp_path / "digest"
    for directory, text in ((ready, "new"), (final, "cut off")):
        directory.mkdir()
        for name in ("root.img", "manifest.json"):
            (directory / name).write_text(text)
    image._publish(ready, final)
    assert not ready.exists()
    names = {path: synced[path.stat().st_ino] for path in (*final.iterdir(), final, tmp_path)}
    assert names[final] == "ready", "renamed before it was on the disk"
    assert set(names.values()) == {"root.img", "manifest.json", "ready", tmp_path.name}
    assert (final / "root.img").read_text() == "new"


def test_a_module_is_on_the_disk_before_later_builds_can_use_it(
    tmp_path: Path, synced: dict[int, str]
) -> None:
    class Removes(_Builder):
        script = ""

    builder = make_builder(Removes, tmp_path)
    compiled = builder.shared / "compiling/lib/modules/6.1.0/updates/dkms/openafs.ko"
    compiled.parent.mkdir(parents=True)
    compiled.write_text("module")
    module = tmp_path / "openafs-1.8.9.ko"
    image._keep_module(builder, "6.1.0", module)
    assert module.read_text() == "module"
    assert synced[module.stat().st_ino] == "openafs.ko"


@contextmanager
def killed_build(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The remains of a build killed by SIGKILL: its directory, and its builder, still running."""
    scratch = state / "images/build-abc"
    (scratch / "builder/root").mkdir(parents=True)
    plan = json.dumps({"root": str(scratch / "builder/root")})
    command = [sys.executable, "-c", _SLEEP, "node_init.py", plan]
    with subprocess.Popen(command) as builder:
        try:
            yield builder
        finally:
            builder.kill()


@pytest.fixture
def fstune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """Run 'fstune vm' pretending to be root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def run(command: str) -> str:
        done = CliRunner().invoke(vm.app, [command, "--state-dir", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_a_killed_build_is_reported_and_cleared_away(
    tmp_path: Path, fstune: Callable[[str], str]
) -> None:
    with killed_build(tmp_path) as builder:
        assert "a build was killed and its programs may still run" in fstune("status")
        process = ProcessId.of(builder.pid)
        assert process.is_alive()
        assert "the remains of a killed build were removed" in fstune("down")
        assert not process.is_alive()
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["lock"]
    assert "killed" not in fstune("status")
    assert "killed" not in fstune("down")


def test_a_running_build_is_left_alone(tmp_path: Path, fstune: Callable[[str], str]) -> None:
    with killed_build(tmp_path) as builder, (tmp_path / "images/lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "killed" not in fstune("status")
        assert "killed" not in fstune("down")
        assert builder.poll() is None
    assert (tmp_path / "images/build-abc").is_dir()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The relevant parts of a root file system as created by mmdebstrap."""
    root = tmp_path / "root"
    for name in ("etc/apt/apt.conf.d", "etc/apt/sources.list.d", "etc/ssh", "etc/systemd/system"):
        (root / name).mkdir(parents=True)
    (root / "etc/apt/apt.conf.d/99mmdebstrap").write_text(f'Acquire::http::Proxy "{PASSWORD}";')
    (root / "etc/apt/apt.conf.d/01autoremove").write_text("")
    for name in ("sources.list", "sources.list.d/0000sources.list"):
        (root / "etc/apt" / name).write_text("deb https://ada:pass-word@example bookworm main")
    (root / "etc/ssh/ssh_host_ed25519_key").write_text("of the builder")
    return root


@pytest.mark.usefixtures("open_umask")
def test_an_image_contains_no_secrets_and_is_prepared_for_those_of_guests(installed: Path) -> None:
    image._configure(installed)
    assert mode(installed / "etc/fstune") == 0o700
    files = [path for path in installed.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if "pass-word" in path.read_text()]
    assert not (installed / "etc/ssh/ssh_host_ed25519_key").exists()
    assert (installed / "etc/apt/apt.conf.d/01autoremove").exists()
