"""OpenSSH server in the nodes of a private cell, which makes them like remote hosts.

Owns the accounts of such a node, its host key and its sshd. Everything is in the node's directory
and namespaces; the host's accounts and SSH server are not used.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from pathlib import Path

from deploy.cell.errors import CellError
from deploy.cell.node import SHARED, Node

PACKAGES = ("openssh-server", "sudo")
PORT = 22
#: An account with full sudo rights, and one without.
OPERATOR, VISITOR = "operator", "visitor"
_UIDS = {OPERATOR: 2001, VISITOR: 2002}
_NOBODY = 65534

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


def write_accounts(home: Path) -> dict[str, Path]:
    """Write a node's account files into its directory. Returns their bind mounts."""
    users = [f"{name}:x:{uid}:{uid}::/var/home/{name}:/bin/sh\n" for name, uid in _UIDS.items()]
    groups = [f"{name}:x:{uid}:\n" for name, uid in _UIDS.items()]
    contents = {
        "passwd": "root:x:0:0:root:/root:/bin/sh\n"
        f"sshd:x:100:{_NOBODY}::/run/sshd:/usr/sbin/nologin\n"
        f"nobody:x:{_NOBODY}:{_NOBODY}::/nonexistent:/usr/sbin/nologin\n" + "".join(users),
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
    """Start sshd in a node, first creating a host key if there is none.

    Every account accepts the ``authorized_keys``. Returns the public host key
    (``ssh-ed25519 AAAA...``). Raises CellError with sshd's output if it does not come up.
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
    """Create a new host key for a node; a running sshd uses the old one until restarted."""
    for name in ("host_key", "host_key.pub"):
        (node.shared / "ssh" / name).unlink(missing_ok=True)
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name]
    node.check([*make, "-f", f"{_DIRECTORY}/host_key"])


def stop(node: Node) -> None:
    """Kill sshd and all its connections. Programs started through them keep running."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    # Repeat: sshd may accept another connection between being listed and being killed.
    while pids := node.run(["pidof", "sshd"]).stdout.decode().split():
        if time.monotonic() > deadline:
            raise CellError(f"{node.name}: sshd does not die")
        node.run(["sh", "-c", 'kill -KILL "$@"', "sh", *pids])
        time.sleep(_POLL_S)
    node.check(["rm", "--force", "/run/sshd.pid"])


def connect_from(node: Node, address: str, port: int, timeout_s: float) -> socket.socket:
    """Open a TCP connection from inside a node, for use by this process. Raises OSError."""
    results: list[socket.socket | OSError] = []

    def connect() -> None:
        # A thread can switch to another network namespace than the rest of its process; a socket
        # stays in the namespace in which it was created.
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
