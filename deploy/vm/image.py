"""Guest image: a root file system with Debian's kernel and the OpenAFS kernel module.

Owns the images below the state directory. An image is named after a digest of its recipe, gets that
name only when complete, and is never changed: guests store their changes elsewhere. It contains no
keys or host names, which each guest gets when it starts.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.cell.errors import CellError
from deploy.cell.machine import require_machine, require_own
from deploy.cell.node import ENVIRONMENT, SHARED, Node, NodePlan, StartingNode, processes_below
from deploy.cell.packages import ensure_private_packages
from deploy.vm import recipe, sources

Say = Callable[[str], None]

_TOOLS = ("e2fsprogs", "mmdebstrap")
_ROOT, _COMPILING = "root", "compiling"
_SCRATCH = "build-"
_MANIFEST = "manifest.json"
#: Files of the host that the builder uses; other nodes have their own.
_NAMES = ("hosts", "nsswitch.conf", "resolv.conf")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_BOOTSTRAP = "mmdebstrap"
_MOST_S = 3600.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Image:
    """A complete image. ``kernel``: kernel release. ``openafs``: version of its packages."""

    directory: Path
    kernel: str
    openafs: str
    seconds: dict[str, float]

    #: Files in its directory.
    ROOT = "root.img"
    VMLINUZ = "vmlinuz"
    INITRD = "initrd.img"

    @property
    def name(self) -> str:
        """The digest of its recipe."""
        return self.directory.name


class Stages:
    """Reports each stage when it starts (``say``), and its duration when it ends (``done``)."""

    def __init__(self, say: Say, done: Say) -> None:
        self.say = say
        self.done = done
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.say(name)
        start = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - start, 1)
        self.done(f"{name}: {self.seconds[name]:.1f} s")


class Images:
    """The images below one state directory."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._packages = state / "packages"
        self._images = state / "images"

    def current(self) -> Image | None:
        """The image of the current recipe; None if it has not been built yet.

        Raises CellError if it cannot be read with our permissions.
        """
        directory = self._images / recipe.digest()
        try:
            document = json.loads((directory / _MANIFEST).read_text())
            return Image(directory, document["kernel"], document["openafs"], document["seconds"])
        except PermissionError:
            raise CellError("the image belongs to root: run it with sudo") from None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def ensure(self, say: Say, done: Say = lambda text: None) -> Image:
        """Return the image of the current recipe, building it if necessary; see ``Stages``.

        A failed or interrupted build leaves only files that later builds can use. Raises CellError.
        """
        if (image := self.current()) is not None:
            return image
        require_machine()
        # Separately: mkdir(mode=...) applies only to the last component.
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own(self._state)
        self._images.mkdir(mode=0o700, exist_ok=True)
        with (self._images / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another fstune is building the image; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._clear()
            if (image := self.current()) is None:
                image = self._build(Stages(say, done))
        return image

    def cut_off(self) -> bool:
        """Whether a build was killed; its programs and files remain until ``clear``."""
        with self._free() as free:
            return free and bool(self._leftovers())

    def clear(self) -> bool:
        """Remove the processes and files of a killed build; False if there are none."""
        with self._free() as free:
            is_cut_off = free and bool(self._leftovers())
            if is_cut_off:
                self._clear()
            return is_cut_off

    def _leftovers(self) -> list[Path]:
        return list(self._images.glob(f"{_SCRATCH}*"))

    @contextmanager
    def _free(self) -> Iterator[bool]:
        """Prevent others from building; yields False if a build is running or none ever ran."""
        if not self._images.is_dir():
            yield False
            return
        with (self._images / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _clear(self) -> None:
        for leftover in self._leftovers():
            _remove(leftover)

    def _build(self, stages: Stages) -> Image:
        name = recipe.digest()  # now, because the recipe may be edited during the build
        with stages.stage("programs that build"):
            tools = ensure_private_packages(
                self._packages, stages.say, name="image", packages=_TOOLS
            )
            lines, settings = sources.source_lines(), sources.settings()
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=self._images))
        builder = None
        try:
            builder = _start_builder(scratch, tools)
            shared = builder.shared
            (shared / "sources.list").write_text("".join(f"{line}\n" for line in lines))
            (shared / "apt.conf").write_text(settings)
            (shared / "debconf").write_text(recipe.DEBCONF)
            (shared / "modules").write_text("".join(f"{name}\n" for name in recipe.EARLY_MODULES))
            (shared / "fstune").write_text("MODULES=list\n")
            ready = self._make(builder, stages)
            _publish(ready, self._images / name)
        finally:
            if builder is not None:
                builder.stop()
            # Also one whose start was interrupted, which would wait for ever.
            _remove(scratch)
        image = self.current()
        assert image is not None
        return image

    def _make(self, builder: Node, stages: Stages) -> Path:
        """Build everything. Returns the directory of the complete image."""
        root = builder.shared / _ROOT
        with ThreadPoolExecutor(1) as pool:
            try:
                # The kernel release is known once the root file system is built. If no compiled
                # module is stored, build both concurrently: each mostly keeps one processor busy.
                first = not list(self._images.glob("openafs-*.ko"))
                compilation = pool.submit(_compile, builder, stages) if first else None
                with stages.stage("root file system"):
                    _bootstrap(builder, _ROOT, recipe.PACKAGES, stages.say)
                (kernel,) = sorted(path.name for path in (root / "lib/modules").iterdir())
                openafs = _version(builder, "openafs-client")
                built_for = _version(builder, f"linux-image-{kernel}")
                name = f"openafs-{openafs}-{built_for}-{kernel}.ko"
                module = self._images / re.sub(r"[^A-Za-z0-9._+-]", "_", name)
                if not module.exists():
                    (compilation or pool.submit(_compile, builder, stages)).result()
                    _keep_module(builder, kernel, module)
            except BaseException:
                builder.stop()  # also ends a compilation, which the pool would wait for
                raise
        with stages.stage("image"):
            _install_module(builder, kernel, module)
            _configure(root)
            ready = builder.shared / "ready"
            ready.mkdir()
            for target, name in ((Image.VMLINUZ, "vmlinuz"), (Image.INITRD, "initrd.img")):
                shutil.copyfile(root / "boot" / f"{name}-{kernel}", ready / target)
            disk = ready / Image.ROOT
            disk.touch()
            os.truncate(disk, recipe.DISK_BYTES)
            # Initialize everything now: a kernel still writing inode tables would disturb
            # measurements.
            now = "lazy_itable_init=0,lazy_journal_init=0"
            make = ["mkfs.ext4", "-q", "-F", "-L", "fstune", "-E", now, "-d", f"{SHARED}/{_ROOT}"]
            builder.check([*make, f"{SHARED}/ready/{Image.ROOT}"], timeout_s=_MOST_S)
        manifest = {"kernel": kernel, "openafs": openafs, "seconds": stages.seconds}
        (ready / _MANIFEST).write_text(json.dumps(manifest, indent=1))
        return ready


def _remove(scratch: Path) -> None:
    """Remove the files of a build, and the processes that are still there."""
    for process in processes_below(scratch):
        process.kill()
    shutil.rmtree(scratch)


def _start_builder(scratch: Path, tools: Path) -> Node:
    """Start a node with the tools in the host's network. All its mounts end with it."""
    home = scratch / "builder"
    (home / "shared").mkdir(parents=True)
    binds = {SHARED: home / "shared"}
    for name in _NAMES:
        if (there := Path(f"/etc/{name}").resolve()).exists():
            binds[f"/etc/{name}"] = there
    plan = NodePlan("builder", home, (tools,), binds, own_network=False)
    return StartingNode(plan).proceed()


def _bootstrap(builder: Node, target: str, packages: Sequence[str], say: Say) -> None:
    """Install packages and their dependencies into a new root file system."""
    hooks = (
        "copy-in debconf /root",
        'chroot "$1" debconf-set-selections /root/debconf',
        'mkdir -p "$1/etc/initramfs-tools/conf.d"',
        "copy-in modules /etc/initramfs-tools",
        "copy-in fstune /etc/initramfs-tools/conf.d",
    )
    command = ["env", "--chdir", SHARED, _BOOTSTRAP, "--mode=root"]
    command += ["--variant=minbase", f"--include={','.join(packages)}", "--aptopt=apt.conf"]
    command += [
        "--aptopt=Apt::Install-Recommends false",
        "--aptopt=Acquire::Languages none",
        "--dpkgopt=force-confold",
        # An interrupted build is discarded, so there is no need to sync to disk.
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
    ]
    command += [f"--essential-hook={hook}" for hook in hooks]
    _run_bootstrap(builder, [*command, recipe.SUITE, target, "sources.list"], target, say)


def _compile(builder: Node, stages: Stages) -> None:
    """Compile the kernel module in a separate root file system."""
    with stages.stage("kernel module"):
        _bootstrap(builder, _COMPILING, recipe.MODULE_PACKAGES, stages.say)


def _run_bootstrap(builder: Node, argv: Sequence[str], target: str, say: Say) -> None:
    """Run mmdebstrap in the builder and report its progress lines. Raises CellError."""
    # In the environment, because they may contain passwords and command lines are public.
    proxies = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    log = builder.shared / f"{target}.log"
    with log.open("wb") as output_file:
        process = subprocess.Popen(
            builder.enter(argv),
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            # Otherwise DKMS builds OpenAFS with a single job.
            env={**ENVIRONMENT, **proxies, "MAKEFLAGS": f"-j{os.cpu_count() or 1}"},
            start_new_session=True,
        )
    deadline = time.monotonic() + _MOST_S
    try:
        with log.open(errors="replace") as lines:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise CellError(f"{_BOOTSTRAP} did not finish within {_MOST_S:.0f} s")
                for line in lines:
                    if line.startswith("I: ") and line.endswith("...\n"):
                        say(line[3:].strip())
                time.sleep(_POLL_S)
    finally:
        process.kill()  # its children end with the builder
        process.wait()
    if process.returncode != 0:
        output = log.read_text(errors="replace").splitlines()
        wrong = [line for line in output if line.startswith(("E:", "Err:", "W:"))] or output
        raise CellError(f"the image cannot be built: {'; '.join(wrong[-3:])}")


def _version(builder: Node, package: str) -> str:
    query = ["chroot", f"{SHARED}/{_ROOT}", "dpkg-query", "--show", "--showformat=${Version}"]
    return builder.check([*query, package]).strip()


def _publish(ready: Path, final: Path) -> None:
    """Move a file, or a directory of files, to its final name after syncing it to disk.

    Whatever has the final name is complete, even after a machine crash. A directory that already
    exists there is incomplete, and is removed.
    """
    for path in (*(ready.iterdir() if ready.is_dir() else ()), ready):
        _sync(path)
    if final.is_dir():
        shutil.rmtree(final)
    ready.rename(final)
    _sync(final.parent)


def _sync(path: Path) -> None:
    """Flush a file or directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_module(builder: Node, kernel: str, module: Path) -> None:
    """Store the compiled module for later images with the same kernel, and remove the rest."""
    compiling = builder.shared / _COMPILING
    modules = sorted((compiling / "lib/modules" / kernel).rglob("openafs.ko"))
    if not modules:
        log = next(compiling.glob("var/lib/dkms/openafs/*/build/make.log"), None)
        message = log.read_text(errors="replace")[-300:] if log else "there is no log of its build"
        raise CellError(f"OpenAFS' module was not compiled for {kernel}: {message}")
    fresh = builder.shared / "openafs.ko"
    shutil.copyfile(modules[0], fresh)
    _publish(fresh, module)
    builder.check(["rm", "-rf", f"{SHARED}/{_COMPILING}"], timeout_s=600.0)


def _install_module(builder: Node, kernel: str, module: Path) -> None:
    there = builder.shared / _ROOT / "lib/modules" / kernel / "updates" / "openafs.ko"
    there.parent.mkdir(exist_ok=True)
    shutil.copyfile(module, there)
    builder.check(["chroot", f"{SHARED}/{_ROOT}", "/sbin/depmod", kernel])


def _configure(root: Path) -> None:
    """Install our own files, and remove everything that must differ between guests."""
    for name, source in recipe.files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, root / name)
    units = root / "etc/systemd/system"
    for unit, wanted_by in recipe.ENABLED.items():
        wants = units / f"{wanted_by}.wants"
        wants.mkdir(exist_ok=True)
        link = wants / unit
        if not link.is_symlink():
            above = "/etc" if (units / unit).exists() else "/lib"
            link.symlink_to(f"{above}/systemd/system/{unit}")
    for unit in recipe.MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in ("machine-id", "resolv.conf"):
        (root / "etc" / name).unlink(missing_ok=True)
        (root / "etc" / name).touch()
    (root / "root/debconf").unlink(missing_ok=True)
    # Remove apt sources and settings, which may contain passwords; guests install no packages.
    apt = root / "etc/apt"
    lists = (apt / "sources.list", *apt.glob("sources.list.d/*"))
    for file in (apt / "apt.conf.d/99mmdebstrap", *lists):
        file.unlink(missing_ok=True)
    # Keys go here. Unpacking the second disk does not change the modes of existing directories.
    secret = root / "etc/fstune"
    secret.mkdir(exist_ok=True)
    secret.chmod(0o700)
