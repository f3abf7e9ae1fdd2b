"""NFSv3 server in the server node of a private cell, as a reference for campaigns.

It has the same network and kind of storage as the fileserver. It runs in user space, so the host's
kernel needs no NFS server.
"""

from __future__ import annotations

import time

from deploy.cell.errors import CellError
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED, Node
from deploy.cell.ssh import connect_from

PACKAGES = ("nfs-ganesha", "nfs-ganesha-vfs", "rpcbind")
#: In memory, like the fileserver's partition.
EXPORT = "/export"

_PORT, _MOUNT_PORT = 2049, 20048
MOUNT_OPTIONS = (
    f"vers=3,proto=tcp,port={_PORT},mountproto=tcp,mountport={_MOUNT_PORT},nolock,hard,_netdev"
)
_RPC_USER = "_rpc:x:65533:65534::/run/rpcbind:/usr/sbin/nologin"
_DIRECTORY = f"{SHARED}/nfs"
_CONFIGURATION = f"""\
NFS_CORE_PARAM {{
    Protocols = 3;
    NFS_Port = {_PORT};
    MNT_Port = {_MOUNT_PORT};
    Bind_addr = {SERVER_ADDRESS};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    fsid_device = true;
}}
NFS_KRB5 {{
    Active_krb5 = false;
}}
EXPORT {{
    Export_Id = 1;
    Path = {EXPORT};
    Pseudo = {EXPORT};
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    Protocols = 3;
    Transports = TCP;
    FSAL {{ Name = VFS; }}
}}
"""
_READY_TIMEOUT_S = 40.0
_POLL_S = 0.2


def start(server: Node) -> None:
    """Start the NFS server and wait until it accepts connections.

    Raises CellError with the end of its log.
    """
    directory = server.shared / "nfs"
    directory.mkdir()
    (directory / "ganesha.conf").write_text(_CONFIGURATION)
    server.check(["mkdir", "--parents", "/run/rpcbind", "/run/ganesha", "/var/lib/nfs/ganesha"])
    server.check(["chmod", "1777", EXPORT])
    # rpcbind switches to its own user, which may not exist on this machine.
    users = server.check(["cat", "/etc/passwd"])
    (directory / "passwd").write_text(f"{users.rstrip()}\n{_RPC_USER}\n")
    server.check(["mount", "--bind", f"{_DIRECTORY}/passwd", "/etc/passwd"])
    server.check(["rpcbind", "-w"])
    server.check(
        [
            "ganesha.nfsd",
            *("-f", f"{_DIRECTORY}/ganesha.conf"),
            *("-L", f"{_DIRECTORY}/log"),
            *("-p", "/run/ganesha/pid"),
            *("-N", "NIV_EVENT"),
        ]
    )
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while True:
        try:
            connect_from(server, SERVER_ADDRESS, _MOUNT_PORT, 1.0).close()
            connect_from(server, SERVER_ADDRESS, _PORT, 1.0).close()
            return
        except OSError as problem:
            if time.monotonic() > deadline:
                log = directory / "log"
                output = log.read_text(errors="replace")[-400:] if log.exists() else ""
                raise CellError(f"the NFS server does not start: {output}") from problem
        time.sleep(_POLL_S)
