"""Seed disk, which turns an image into a specific guest: its address, keys and cell.

The disk is a tar archive that the guest unpacks at first boot. It is created at run time, contains
secrets, and is in the cell's directory, which only root can read.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

from deploy.cell import kerberos
from deploy.cell.client import cache_info
from deploy.cell.network import PREFIX_LENGTH, SERVER_ADDRESS
from deploy.cell.server import CELL_FILES, CELL_NAME
from deploy.vm import nfs

ADDRESS = "10.77.0.251"
HOSTNAME = "guest"
#: Path in the guest of the benchmark user's keytab.
KEYTAB = f"/etc/fstune/{kerberos.USER}.keytab"
#: References for campaigns: directories on the guest's own disk, and on the server through NFS.
LOCAL_DIRECTORY = "/var/local/bench"
NFS_DIRECTORY = "/mnt/nfs"


def write(path: Path, secrets: Mapping[str, Path], authorized_keys: str) -> None:
    """Write the disk. ``secrets``: path in the guest -> source file here; readable by root only."""
    network = (
        "[Match]\nType=ether\n\n[Network]\n"
        f"Address={ADDRESS}/{PREFIX_LENGTH}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )
    mount = f"{SERVER_ADDRESS}:{nfs.EXPORT} {NFS_DIRECTORY} nfs {nfs.MOUNT_OPTIONS},nofail 0 0\n"
    plain = {
        "etc/fstab": mount,
        "etc/hostname": f"{HOSTNAME}\n",
        "etc/hosts": f"127.0.0.1 localhost\n{SERVER_ADDRESS} server\n{ADDRESS} {HOSTNAME}\n",
        "etc/krb5.conf": kerberos.client_configuration(CELL_NAME, SERVER_ADDRESS),
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        **{f"etc/openafs/{name}": content for name, content in CELL_FILES.items()},
        "etc/openafs/cacheinfo": cache_info(),
        "etc/systemd/network/10-fstune.network": network,
        "root/.ssh/authorized_keys": authorized_keys,
    }
    modes = {"root/.ssh": 0o700, "etc/fstune": 0o700}
    modes |= {name.lstrip("/"): 0o755 for name in (LOCAL_DIRECTORY, NFS_DIRECTORY)}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, mode in modes.items():
            _add(archive, name, mode, None)
        for name, text in plain.items():
            _add(archive, name, 0o644, text.encode())
        for name, source in secrets.items():
            _add(archive, name.lstrip("/"), 0o600, source.read_bytes())


def _add(archive: tarfile.TarFile, name: str, mode: int, content: bytes | None) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = mode, int(time.time())
    entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    entry.size = 0 if content is None else len(content)
    archive.addfile(entry, None if content is None else io.BytesIO(content))
