"""Building an image without a machine to build it on: what is secret, what is left, what counts."""

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
#: Stands in for the builder: what it finds in its environment and among its arguments.
_SHOW = "import os, sys; print(os.environ.get('http_proxy'), sys.argv[1:]); sys.exit(3)"
_SLEEP = "import time; time.sleep(60)"


class _Builder(Node):
    """A node that runs a script of this machine in place of every command."""

    script = _SHOW

    def enter(self, argv: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", self.script, *argv]


class _Slow(_Builder):
    script = _SLEEP


def made(kind: type[_Builder], directory: Path) -> _Builder:
    own = ProcessId.of(os.getpid())
    builder = kind("builder", directory, own, own)
    builder.shared.mkdir()
    return builder


def ignore(text: str) -> None:
    """Say nothing."""


def bootstrap(builder: Node) -> str:
    """What is said of a build that fails."""
    with pytest.raises(CellError) as failed:
        image._bootstrap(builder, "root", recipe.PACKAGES, ignore)
    return str(failed.value)


@pytest.mark.slow
def test_the_password_of_a_proxy_is_not_among_the_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", PASSWORD)
    bootstrap(made(_Builder, tmp_path))
    environment, _, arguments = (tmp_path / "shared/root.log").read_text().partition(" ")
    assert environment == PASSWORD
    assert "mmdebstrap" in arguments
    assert "pass-word" not in arguments


@pytest.mark.slow
def test_the_password_of_a_proxy_is_not_in_what_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", PASSWORD)
    monkeypatch.setattr(image, "_MOST_S", 0.1)
    assert bootstrap(made(_Slow, tmp_path)) == "mmdebstrap does not end within 0 s"


def test_a_build_that_fails_does_not_wait_for_the_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The root file system and the module are made at the same time."""
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
    """A machine that is fit, but has no packages."""

    def refuse(*ignored: object, **names: object) -> Path:
        raise CellError("no packages")

    for name in ("deploy.vm.image.require_machine", "deploy.vm.guest.require_machine"):
        monkeypatch.setattr(name, lambda: None)
    monkeypatch.setattr("deploy.vm.qemu.require_machine", lambda options: None)
    monkeypatch.setattr(image, "ensure_private_packages", refuse)


@pytest.mark.usefixtures("open_umask", "no_packages")
def test_a_state_directory_that_a_build_makes_is_ours_alone(tmp_path: Path) -> None:
    state = tmp_path / "above" / "state"
    with pytest.raises(CellError, match="no packages"):
        Images(state).ensure(ignore)
    assert [mode(path) for path in (state, state / "images")] == [0o700, 0o700]


@pytest.mark.usefixtures("open_umask", "no_packages")
def test_what_a_guest_that_does_not_start_has_printed_is_ours_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says what the guest is made of, and what went wrong in it."""
    guests = Guests(tmp_path)
    complete = image.Image(tmp_path, "6.1.0", "1.8.9", {})
    monkeypatch.setattr(guests.images, "ensure", lambda *ignored: complete)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "console-of-vm.log").write_text("of an earlier one, for all to read")
    monkeypatch.setattr(guests, "_start", lambda *ignored: boot(tmp_path / "cells/vm"))
    with pytest.raises(CellError, match="does not boot"):
        guests.up("vm", GuestOptions())
    kept = tmp_path / "console-of-vm.log"
    assert (kept.read_text(), mode(kept)) == ("Kernel panic", 0o600)
    assert Guests(tmp_path).names() == []


def boot(cell: Path) -> None:
    """As a guest does that cannot."""
    shared = cell / "server/shared/vm"
    shared.mkdir(parents=True)
    (shared / "console.log").write_text("Kernel panic")
    raise CellError("does not boot")


@pytest.mark.parametrize("text", ["", '{"kernel": "6.1.0"', "[]", "{}", "null", "\0\0"])
def test_a_manifest_that_a_crash_has_cut_off_counts_as_none(tmp_path: Path, text: str) -> None:
    directory = tmp_path / "images" / recipe.digest()
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text(text)
    assert Images(tmp_path).current() is None


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """What was waited for, by its number in the file system, with the name that it had then."""
    found: dict[int, str] = {}
    really = os.fsync

    def note(descriptor: int) -> None:
        really(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        found[path.stat().st_ino] = path.name

    monkeypatch.setattr(os, "fsync", note)
    return found


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


def test_a_module_is_on_the_disk_before_later_builds_may_take_it(
    tmp_path: Path, synced: dict[int, str]
) -> None:
    class Removes(_Builder):
        script = ""

    builder = made(Removes, tmp_path)
    compiled = builder.shared / "compiling/lib/modules/6.1.0/updates/dkms/openafs.ko"
    compiled.parent.mkdir(parents=True)
    compiled.write_text("module")
    module = tmp_path / "openafs-1.8.9.ko"
    image._keep_module(builder, "6.1.0", module)
    assert module.read_text() == "module"
    assert synced[module.stat().st_ino] == "openafs.ko"


@contextmanager
def killed_build(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What kill -9 leaves of a build: its directory, and its builder, which runs on."""
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
    """Run 'fstune vm' as root would, as far as that is asked for."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def run(command: str) -> str:
        done = CliRunner().invoke(vm.app, [command, "--state-dir", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_a_build_that_was_killed_is_named_and_ended(
    tmp_path: Path, fstune: Callable[[str], str]
) -> None:
    with killed_build(tmp_path) as builder:
        assert "a build was killed and its programs may run on" in fstune("status")
        process = ProcessId.of(builder.pid)
        assert process.is_alive()
        assert "a build that was killed is cleared away" in fstune("down")
        assert not process.is_alive()
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["lock"]
    assert "killed" not in fstune("status")
    assert "killed" not in fstune("down")


def test_a_build_that_is_under_way_is_left_alone(
    tmp_path: Path, fstune: Callable[[str], str]
) -> None:
    with killed_build(tmp_path) as builder, (tmp_path / "images/lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "killed" not in fstune("status")
        assert "killed" not in fstune("down")
        assert builder.poll() is None
    assert (tmp_path / "images/build-abc").is_dir()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A root file system as mmdebstrap leaves it, as far as it matters."""
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
def test_an_image_keeps_no_secret_and_is_ready_for_those_to_come(installed: Path) -> None:
    image._furnish(installed)
    assert mode(installed / "etc/fstune") == 0o700
    files = [path for path in installed.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if "pass-word" in path.read_text()]
    assert not (installed / "etc/ssh/ssh_host_ed25519_key").exists()
    assert (installed / "etc/apt/apt.conf.d/01autoremove").exists()
