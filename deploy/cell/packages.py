"""OpenAFS from Debian packages, unpacked into a private directory and never installed.

Owns the package tree that nodes overlay on the host's files. apt only downloads: no maintainer
scripts run, no services start, and the debconf and dpkg databases are unchanged.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from deploy.cell.errors import CellError

#: Packages for server and client nodes; apt adds their missing dependencies.
PACKAGES = (
    "openafs-fileserver",
    "openafs-dbserver",
    "openafs-client",
    "openafs-fuse",
    "openafs-krb5",
)

#: Directories merged into /usr that packages still refer to by their old names.
_USR_LINKS = ("bin", "lib", "lib32", "lib64", "sbin")

#: Mount points needed inside the read-only overlays.
_MOUNT_POINTS = ("etc/openafs",)

#: Files that nodes replace with their own. On the host they may be symlinks that would dangle
#: inside a node.
_REPLACED_FILES = ("etc/hosts", "etc/resolv.conf", "etc/nsswitch.conf")

_INSTALLED = Path("/var/lib/dpkg/status")
_DOWNLOAD_TIMEOUT_S = 300
_SCRATCH = "fetch-"
_FETCH = ("install", "--download-only", "--reinstall", "--no-install-recommends", "--yes")


def ensure_packages(
    store: Path,
    say: Callable[[str], None],
    *,
    name: str = "openafs",
    packages: tuple[str, ...] = PACKAGES,
) -> Path:
    """Return the tree ``name`` of unpacked packages below ``store``, downloaded on first use.

    The tree gets its final name only when complete, so an interrupted download is simply repeated.
    Raises CellError if apt is missing or cannot fetch the packages.
    """
    tree = store / name
    if tree.is_dir():
        return tree
    for tool in ("apt-get", "dpkg-deb", "tar"):
        if shutil.which(tool) is None:
            raise CellError(
                f"{tool} is missing: {name} needs Debian 12 or a system with its packages"
            )
    store.mkdir(parents=True, exist_ok=True)
    with (store / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tree.is_dir():
            return tree  # another cell fetched it while we waited
        for leftover in store.glob(f"{_SCRATCH}*"):
            shutil.rmtree(leftover)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=store) as scratch:
            say(f"fetching the packages of {name} (once)")
            archives = _download(Path(scratch), packages)
            unpacked = Path(scratch) / "tree"
            _unpack(archives, unpacked)
            unpacked.chmod(0o755)
            os.sync()  # the name says that it is complete, even after a crash of the machine
            unpacked.rename(tree)
    return tree


def ensure_private_packages(
    store: Path, say: Callable[[str], None], *, name: str, packages: tuple[str, ...]
) -> Path:
    """Like ``ensure_packages``, but below a directory that only root can enter: no package manager
    updates the setuid programs in the tree.
    """
    private = store / "root-only"
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    return ensure_packages(private, say, name=name, packages=packages)


def _download(scratch: Path, packages: tuple[str, ...]) -> list[Path]:
    """Let apt download the packages and their missing dependencies. Raises CellError.

    Tries the host's package lists and what is installed there first. The lists may be missing or
    stale. What is installed may be in the way: packages on hold, or built by hand, or another
    program that has locked dpkg.
    """
    cache = scratch / "apt"
    lists = scratch / "lists"
    for directory in (cache / "archives" / "partial", lists / "partial"):
        directory.mkdir(parents=True)
    status = scratch / "dpkg" / "status"
    _write_status(status, packages)
    private_cache = ["-o", f"Dir::Cache={cache}"]
    private_lists = ["-o", f"Dir::State::Lists={lists}"]
    private_status = ["-o", f"Dir::State::status={status}"]
    for with_lists in ([], private_lists):
        options = [*private_cache, *with_lists]
        if with_lists and (error := _apt([*options, "update"])) is not None:
            raise CellError(f"apt-get update: {error}; check the machine's apt sources")
        for with_status in ([], private_status):
            if (error := _apt([*options, *with_status, *_FETCH, *packages])) is None:
                return _archives(cache)
    raise CellError(f"apt-get install: {error}; check the machine's apt sources")


def _archives(cache: Path) -> list[Path]:
    archives = sorted((cache / "archives").glob("*.deb"))
    if not archives:
        raise CellError("apt-get downloaded no package; check the machine's apt sources")
    return archives


def _write_status(file: Path, packages: tuple[str, ...]) -> None:
    """Write what is installed, for apt, but without these packages, others of OpenAFS, and all that
    depend on them. apt locks the directory of this file instead of dpkg's.
    """
    file.parent.mkdir()
    text = _INSTALLED.read_text(errors="surrogateescape") if _INSTALLED.exists() else ""
    stanzas = {
        stanza: stanza.partition("\n")[0].removeprefix("Package: ")
        for stanza in filter(None, text.strip("\n").split("\n\n"))
    }
    absent = {*packages, *(name for name in stanzas.values() if name.startswith("openafs-"))}
    while more := {
        name
        for stanza, name in stanzas.items()
        if name not in absent and not absent.isdisjoint(_dependencies(stanza))
    }:
        absent |= more
    others = [stanza for stanza, name in stanzas.items() if name not in absent]
    file.write_text("".join(f"{stanza}\n\n" for stanza in others), errors="surrogateescape")


def _dependencies(stanza: str) -> set[str]:
    """The names of all packages that an installed one depends on, alternatives included."""
    lines = re.findall(r"^(?:Pre-)?Depends: (.*)$", stanza, re.MULTILINE)
    return set(re.findall(r"(?:^|[,|]) *([a-z0-9][a-z0-9+.-]+)", "\n".join(lines), re.MULTILINE))


def _apt(arguments: list[str]) -> str | None:
    """Run apt-get. Returns None on success, otherwise the error line."""
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")
    try:
        result = subprocess.run(
            ["apt-get", "-q", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_DOWNLOAD_TIMEOUT_S} s"
    if result.returncode == 0:
        return None
    lines = result.stderr.splitlines()
    lines = [line for line in lines if line.startswith("E:")] or lines
    return lines[0] if lines else f"exit status {result.returncode}"


def _unpack(archives: list[Path], tree: Path) -> None:
    for name in _USR_LINKS:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for archive in archives:
        # Not "dpkg-deb --extract", which would replace the symlinks above with directories.
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE
        ) as archive_reader:
            extract = ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner"]
            result = subprocess.run(
                [*extract, f"--directory={tree}"],
                stdin=archive_reader.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if archive_reader.returncode != 0 or result.returncode != 0:
            raise CellError(
                f"{archive.name} does not unpack: {result.stderr.strip()}; check the free disk "
                "space"
            )
    for name in _MOUNT_POINTS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name in _REPLACED_FILES:
        (tree / name).touch()
