"""Set up the server node of a private cell: key, bosserver, databases, fileserver, one volume.

The fileserver's options are changed later by the tuner, through ``bos``.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from deploy.cell import kerberos
from deploy.cell.errors import CellError
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED, Node

CELL_NAME = "fstune.test"
SERVICE = f"afs/{CELL_NAME}"
VOLUME = "bench"
PARTITION = "/vicepa"
LOG_DIRECTORY = "/var/log/openafs"
FILE_LOG = f"{LOG_DIRECTORY}/FileLog"
#: When and how bosserver has ended.
BOSSERVER_LOG = f"{LOG_DIRECTORY}/bosserver"
#: Files that name the cell, for servers and clients.
CELL_FILES = {
    "ThisCell": f"{CELL_NAME}\n",
    "CellServDB": f">{CELL_NAME}\n{SERVER_ADDRESS} #server\n",
}

_PROGRAMS = "/usr/lib/openafs"
#: Hosts and callbacks must not persist across restarts; measurements would not be independent.
FILESERVER_COMMAND = f"{_PROGRAMS}/dafileserver -fs-state-dont-save -fs-state-dont-restore"
#: The other programs of a demand-attach (dafs) instance, in the order bos expects.
FILESERVER_COMPANIONS = tuple(
    f"{_PROGRAMS}/{name}" for name in ("davolserver", "salvageserver", "dasalvager")
)

_READY_TIMEOUT_S = 40.0
_POLL_S = 0.1

_SYSTEM_ADMINISTRATORS = -204
_SYSTEM_ANYUSER = -101
_ALL_RIGHTS = 0x7F
#: bosserver 1.8.9 occasionally crashes when an instance is stopped. Restart it after a crash of any
#: kind, as an init system would, but not after a signal by which an administrator ends it. First
#: kill the programs it was running, which would otherwise run twice.
_KEEP_BOSSERVER = """
exec < /dev/null >> "$1" 2>&1
while :; do
    bosserver -nofork
    status=$?
    echo "$(date): bosserver has ended with status $status"
    case $status in
        0 | 129 | 130 | 141 | 143) exit ;;
    esac
    kill -KILL $(pidof dafileserver davolserver salvageserver dasalvager ptserver vlserver)
    sleep 0.2
done
"""


def write_cell_files(directory: Path) -> None:
    """Write the files that name the cell."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in CELL_FILES.items():
        (directory / name).write_text(content)


def write_name_files(directory: Path, hostname: str, address: str) -> None:
    """Write the name resolution files of a node, so that it resolves only local names and never
    queries the network.

    OpenAFS programs look up their own host name, and an unresponsive name server would block them
    for a long time.
    """
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n{address} {hostname}\n")
    (directory / "resolv.conf").write_text("")
    (directory / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")


def start_databases(server: Node, *, with_kdc: bool = False) -> None:
    """Start bosserver with a new service key, start the protection and location servers, and wait
    until they are ready.

    ``with_kdc``: start a KDC that supplies the key, and create the benchmark user in the protection
    server. Start the fileserver only afterwards: without a protection server it sits idle for half
    a minute.
    """
    keytab = server.shared / "keytab"
    if with_kdc:
        kerberos.start(server, CELL_NAME, SERVICE, SERVER_ADDRESS, f"{SHARED}/{keytab.name}")
    else:
        with open(os.open(keytab, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_keytab(os.urandom(32), int(time.time())))
    add_key = ["asetkey", "add", "rxkad_krb5", "1", "18", f"{SHARED}/{keytab.name}"]
    server.check([*add_key, f"{SERVICE}@{kerberos.realm(CELL_NAME)}"])
    keytab.unlink()
    server.check(["setsid", "--fork", "sh", "-c", _KEEP_BOSSERVER, "sh", BOSSERVER_LOG])
    for name in ("ptserver", "vlserver"):
        create = ["bos", "create", SERVER_ADDRESS, name, "simple", f"{_PROGRAMS}/{name}"]
        _retry(server, [*create, "-localauth"], "bosserver")
    _retry(server, ["pts", "listentries", "-localauth"], "the protection server")
    _retry(server, ["vos", "listvldb", "-localauth"], "the location server")
    if with_kdc:
        server.check(["pts", "createuser", kerberos.USER, "-localauth"])


def start_fileserver(server: Node) -> None:
    """Create the fileserver instance with default options, and a world-writable volume."""
    create = ["bos", "create", SERVER_ADDRESS, "dafs", "dafs", FILESERVER_COMMAND]
    server.check([*create, *FILESERVER_COMPANIONS, "-localauth"])
    _retry(server, ["grep", "--quiet", "File Server started", FILE_LOG], "the fileserver")
    _retry(server, ["vos", "partinfo", SERVER_ADDRESS, "-localauth"], "the volume server")
    volume = [SERVER_ADDRESS, PARTITION, VOLUME]
    server.check(["vos", "create", *volume, "-maxquota", "0", "-localauth"])
    _open_to_everybody(server)


def _open_to_everybody(server: Node) -> None:
    """Give anonymous clients all rights on the volume's root directory.

    Changing the access list needs an administrator's token, which does not exist here. Instead, the
    volume is dumped, the entry for system:administrators in the dump is changed to system:anyuser,
    and the dump is restored.
    """
    dump = server.shared / "volume.dump"
    server.check(["vos", "dump", VOLUME, "-file", f"{SHARED}/{dump.name}", "-localauth"])
    administrators_entry = struct.pack(">ii", _SYSTEM_ADMINISTRATORS, _ALL_RIGHTS)
    content = dump.read_bytes()
    if content.count(administrators_entry) != 1:
        raise CellError(f"the dump of volume {VOLUME} has no access list of the expected form")
    dump.write_bytes(
        content.replace(administrators_entry, struct.pack(">ii", _SYSTEM_ANYUSER, _ALL_RIGHTS))
    )
    restore = ["vos", "restore", SERVER_ADDRESS, PARTITION, VOLUME]
    restore += ["-file", f"{SHARED}/{dump.name}", "-overwrite", "full"]
    server.check([*restore, "-localauth"])
    dump.unlink()


def _keytab(key: bytes, timestamp_s: int) -> bytes:
    """A keytab file (version 0x0502) with one AES-256 key of the cell's service principal."""

    def with_length(data: bytes) -> bytes:
        return struct.pack(">H", len(data)) + data

    components = [b"afs", CELL_NAME.encode()]
    entry = struct.pack(">H", len(components)) + with_length(kerberos.realm(CELL_NAME).encode())
    entry += b"".join(with_length(component) for component in components)
    entry += struct.pack(">IIBH", 1, timestamp_s, 1, 18) + with_length(key)
    return b"\x05\x02" + struct.pack(">i", len(entry)) + entry


def _retry(server: Node, command: list[str], what: str) -> None:
    """Retry a command until it succeeds. On timeout raises CellError with its last output."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while True:
        try:
            server.check(command)
            return
        except CellError as problem:
            if time.monotonic() > deadline:
                text = f"{what} is not ready after {_READY_TIMEOUT_S:g} s: {problem}"
                raise CellError(text) from problem
        time.sleep(_POLL_S)
