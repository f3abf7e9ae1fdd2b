"""First process of a node of a private cell: build its root file system, then reap children.

Runs as PID 1 of new mount, network, PID, IPC and UTS namespaces (started by ``node.py``), as a
plain script on the host's python3: standard library only, no imports from this project. When this
process dies, the kernel kills every process of the node, and drops all mounts with the last of
them, so nothing can be left behind.

The node sees the host's files through read-only overlays with the OpenAFS packages on top, and has
its own directories where OpenAFS uses fixed paths (/etc/openafs, /var/lib/openafs, /vicepa, /afs,
...). None of this is visible on the host.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MNT_DETACH = 0x2

#: Host directories overlaid with the packages. The package trees must be outside of them.
_OVERLAID = ("etc", "usr")
#: Host directories hidden from the node, which has its own or none.
_PRIVATE = ("afs", "dev", "lost+found", "proc", "run", "sys", "tmp", "var")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(
    source: str, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    status = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(status, f"mount {source} on {target}")


def _bind(source: str, target: str) -> None:
    _mount(source, target, None, _MS_BIND | _MS_REC)


def _build_root(root: str, packages: list[str], binds: list[list[str]], memory: list[str]) -> None:
    """Assemble the node's root directory in ``root``, an existing empty directory."""
    # Slave: later unmounts on the host propagate to the node, so it never keeps a disk busy;
    # nothing propagates back.
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for entry in sorted(os.scandir("/"), key=lambda item: item.name):
        target = os.path.join(root, entry.name)
        if entry.name in _PRIVATE or entry.name.startswith("vicep"):
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif not entry.is_dir():
            continue
        elif entry.name in _OVERLAID:
            os.mkdir(target)
            layers = [*(os.path.join(tree, entry.name) for tree in packages), entry.path]
            _mount("overlay", target, "overlay", _MS_RDONLY, f"lowerdir={':'.join(layers)}")
        else:
            os.mkdir(target)
            _bind(entry.path, target)
    for name in ("dev", "proc", "run", "sys", "tmp"):
        os.mkdir(os.path.join(root, name))
    _bind("/dev", os.path.join(root, "dev"))
    hardened = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _mount("proc", os.path.join(root, "proc"), "proc", hardened)
    _mount("sysfs", os.path.join(root, "sys"), "sysfs", hardened | _MS_RDONLY)
    connections = os.path.join(root, "sys", "fs", "fuse", "connections")
    if os.path.isdir(connections):  # elsewhere systemd does this
        _mount("fusectl", connections, "fusectl", hardened)
    for name, mode in (("run", "755"), ("tmp", "1777")):
        _mount("tmpfs", os.path.join(root, name), "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode={mode}")
    os.makedirs(os.path.join(root, "var", "lib"))
    os.symlink("../run", os.path.join(root, "var", "run"))
    os.symlink("../tmp", os.path.join(root, "var", "tmp"))
    for source, inside in binds:
        target = root + inside
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        _bind(source, target)
    for inside in memory:
        os.makedirs(root + inside, exist_ok=True)
        _mount("tmpfs", root + inside, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")


def _enter(root: str) -> None:
    """Make ``root`` the root of this mount namespace, and detach the host's root."""
    os.chdir(root)
    # With both arguments ".", the old root is stacked on the new one, so unmounting "." detaches
    # the old root.
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount of the old root")
    os.chdir("/")


def _reap_for_ever() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    while signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) != signal.SIGTERM:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break


def main() -> None:
    """Build the node described by the JSON document in ``argv[1]``, report it ready, then reap."""
    node = json.loads(sys.argv[1])
    # /proc is still the host's, so this is our PID on the host. Continue only after the starter has
    # recorded it; if the starter dies, our standard input is closed.
    os.write(1, f"{os.readlink('/proc/self')}\n".encode())
    if os.read(0, 1) == b"":
        return
    _build_root(node["root"], node["packages"], node["binds"], node["memory"])
    _enter(node["root"])
    _check(
        _libc.sethostname(node["hostname"].encode(), len(node["hostname"].encode())), "sethostname"
    )
    os.write(1, b"ready\n")
    # Close the starter's descriptors, so that it can end while the node keeps running.
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    _reap_for_ever()


if __name__ == "__main__":
    main()
