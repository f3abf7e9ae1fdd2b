"""What the image of the guest is made of. Each change of this file or of ``files/`` makes another
image.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

#: Of how the image is put together (``image.py``).
VERSION = 3
SUITE = "bookworm"

#: A client host as an administrator has it; what they depend on is resolved by apt.
PACKAGES = (
    "dbus",
    "e2fsprogs",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "krb5-user",
    # Not the smaller one for clouds, which lacks drivers.
    "linux-image-amd64",
    "netbase",
    "nfs-common",
    "openafs-client",
    "openafs-krb5",
    "openssh-server",
    "procps",
    "python3",
    "systemd",
    "systemd-sysv",
    "udev",
)

#: What compiles the kernel module, in a root file system of its own that is thrown away.
MODULE_PACKAGES = ("dkms", "initramfs-tools", "linux-headers-amd64", "openafs-modules-dkms")

#: Answers to what packages ask while they are installed. The names come from the seed.
DEBCONF = """\
openafs-client openafs-client/thiscell string fstune.test
openafs-client openafs-client/cell-info string
openafs-client openafs-client/cachesize string 200000
openafs-client openafs-client/run-client boolean true
openafs-client openafs-client/afsdb boolean false
openafs-client openafs-client/crypt boolean true
openafs-client openafs-client/dynroot select Yes
openafs-client openafs-client/fakestat boolean true
krb5-config krb5-config/default_realm string FSTUNE.TEST
krb5-config krb5-config/add_servers_realm string FSTUNE.TEST
krb5-config krb5-config/kerberos_servers string
krb5-config krb5-config/admin_server string
"""

#: In the first file system that the kernel sees: what it needs to find the disk, nothing else.
EARLY_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_rng", "ext4")

#: Units that are started with the guest, by what wants them.
ENABLED = {
    "fstune-seed.service": "sysinit.target",
    "systemd-networkd.service": "multi-user.target",
    "systemd-networkd-wait-online.service": "network-online.target",
}
#: Timers that would work in the middle of a measurement.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-timesyncd.service",
)

#: Room on the guest's disk, files and OpenAFS' cache together; the image takes what it needs.
DISK_BYTES = 4 << 30

_FILES = Path(__file__).with_name("files")


def files() -> dict[str, Path]:
    """The files that are copied into the image: path there, without the first slash -> here."""
    found = sorted(path for path in _FILES.rglob("*") if path.is_file())
    return {str(path.relative_to(_FILES)): path for path in found}


def digest() -> str:
    """Sixteen hexadecimal digits that change with anything that the image is made of."""
    whole = hashlib.sha256(Path(__file__).read_bytes())
    for name, path in files().items():
        whole.update(f"\0{name}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:16]
