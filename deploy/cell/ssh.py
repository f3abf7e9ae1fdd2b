"""OpenSSH's server in the nodes of a private cell: hosts like those that an administrator reaches.

Owns the accounts of such a node, its host key and its one sshd. All of it lies in the node's own
directory and runs in its namespaces: neither the host's accounts nor its SSH server take part.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from deploy.cell.errors import CellError
from deploy.cell.node import SHARED, Node
from deploy.cell.packages import ensure_private_packages

PORT = 22
#: An account that may do everything by sudo, and one that may not.
OPERATOR, VISITOR = "operator", "visitor"
_UIDS = {OPERATOR: 2001, VISITOR: 2002}
_NOBODY = 65534

_PACKAGES = ("openssh-server", "sudo")
_ACCOUNT_FILES = {"passwd": 0o644, "group": 0o644, "shadow": 0o600, "sudoers": 0o440}

_DIRECTORY = f"{SHARED}/ssh"
_CONFIGURATION = f"""\
Port {PORT}
HostKey {_DIRECTORY}/host_key
AuthorizedKeysFile {_DIRECTORY}/authorized_keys
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
"""
_READY_TIMEOUT_S = 10.0
_POLL_S = 0.02
_CLONE_NEWNET = 0x40000000


def ensure_ssh_packages(store: Path, say: Callable[[str], None]) -> Path:
    """The unpacked tree of OpenSSH and sudo below ``store``, downloaded on first use."""
    return ensure_private_packages(store, say, name="ssh", packages=_PACKAGES)


def write_accounts(home: Path) -> dict[str, Path]:
    """Write the account files of a node into its directory; returns what it is to see where."""
    people = [f"{name}:x:{uid}:{uid}::/var/home/{name}:/bin/sh\n" for name, uid in _UIDS.items()]
    groups = [f"{name}:x:{uid}:\n" for name, uid in _UIDS.items()]
    contents = {
        "passwd": "root:x:0:0:root:/root:/bin/sh\n"
        f"sshd:x:100:{_NOBODY}::/run/sshd:/usr/sbin/nologin\n"
        f"nobody:x:{_NOBODY}:{_NOBODY}::/nonexistent:/usr/sbin/nologin\n" + "".join(people),
        "group": f"root:x:0:\nnogroup:x:{_NOBODY}:\n" + "".join(groups),
        "shadow": "".join(f"{name}:*:19000:0:99999:7:::\n" for name in ("root", "sshd", *_UIDS)),
        "sudoers": f"root ALL=(ALL:ALL) ALL\n{OPERATOR} ALL=(ALL:ALL) NOPASSWD: ALL\n",
    }
    for name, mode in _ACCOUNT_FILES.items():
        path = home / name
        path.write_text(contents[name])
        path.chmod(mode)
    return {f"/etc/{name}": home / name for name in _ACCOUNT_FILES}


def start(node: Node, authorized_keys: str) -> str:
    """Start sshd in a node, with a host key made now unless it has one; every account there takes
    the ``authorized_keys``. Returns the public host key (``ssh-ed25519 AAAA...``).

    Raises CellError with its output when it does not come up.
    """
    directory = node.shared / "ssh"
    if not directory.exists():
        directory.mkdir(mode=0o755)
        make_host_key(node)
        for name, uid in _UIDS.items():
            home = f"/var/home/{name}"
            node.check(["install", "-d", f"--owner={uid}", f"--group={uid}", "--mode=700", home])
        node.check(["mkdir", "--parents", "/run/sshd"])
    (directory / "authorized_keys").write_text(authorized_keys)
    (directory / "sshd_config").write_text(_CONFIGURATION)
    node.check(["/usr/sbin/sshd", "-f", f"{_DIRECTORY}/sshd_config", "-E", f"{_DIRECTORY}/log"])
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while node.run(["test", "-s", "/run/sshd.pid"]).status != 0:
        if time.monotonic() > deadline:
            raise CellError(f"{node.name}: sshd: {(directory / 'log').read_text()[-400:]}")
        time.sleep(_POLL_S)
    return (directory / "host_key.pub").read_text().strip()


def make_host_key(node: Node) -> None:
    """Give a node a new host key; an sshd that runs keeps the old one until it starts again."""
    for name in ("host_key", "host_key.pub"):
        (node.shared / "ssh" / name).unlink(missing_ok=True)
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name]
    node.check([*make, "-f", f"{_DIRECTORY}/host_key"])


def stop(node: Node) -> None:
    """End sshd and every connection to it, at once. What was started over one goes on."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    # Again and again: it may have taken one more connection between being listed and killed.
    while pids := node.run(["pidof", "sshd"]).stdout.decode().split():
        if time.monotonic() > deadline:
            raise CellError(f"{node.name}: sshd does not die")
        node.run(["sh", "-c", 'kill -KILL "$@"', "sh", *pids])
        time.sleep(_POLL_S)
    node.check(["rm", "--force", "/run/sshd.pid"])


def connect_from(node: Node, address: str, port: int, timeout_s: float) -> socket.socket:
    """A TCP connection from inside a node, used by a process outside. Raises OSError."""
    results: list[socket.socket | OSError] = []

    def connect() -> None:
        # A thread may be in another network than the rest of its process; a socket stays in the
        # network where it was made.
        try:
            namespace = os.open(f"/proc/{node.init.pid}/ns/net", os.O_RDONLY)
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(namespace, _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            finally:
                os.close(namespace)
            results.append(socket.create_connection((address, port), timeout=timeout_s))
        except OSError as problem:
            results.append(problem)

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    if isinstance(results[0], OSError):
        raise results[0]
    return results[0]
