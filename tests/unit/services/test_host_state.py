"""The state of a host that affects measurements, read by a single command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from tuner.hosts.connector import CommandResult, Connector
from tuner.hosts.local import LocalConnector
from tuner.services.host_state import host_state

SETTINGS = """\
/proc/sys/kernel/osrelease:6.1.0-28-amd64
/proc/sys/net/core/rmem_max:212992
/proc/sys/vm/dirty_ratio:20
"""
MOUNTS = r"""
/dev/sda2 / ext4 rw,relatime 0 0
/dev/mapper/vg-a /vicepa xfs rw 0 0
/dev/md0 /vicepb ext4 rw 0 0
tmpfs /vicepc tmpfs rw 0 0
/dev/sda3 /var/cache/open\040afs ext4 rw 0 0
/dev/md0 /var/cache/open\040afs-old ext4 rw 0 0
/dev/md0 /srv/cache-old ext4 rw 0 0
""".lstrip()
DISKS = r"""
NAME="sda" KNAME="sda" PKNAME="" TYPE="disk" ROTA="0" MODEL="Fast\x20SSD"
NAME="sda2" KNAME="sda2" PKNAME="sda" TYPE="part" ROTA="0" MODEL=""
NAME="sda3" KNAME="sda3" PKNAME="sda" TYPE="part" ROTA="0" MODEL=""
NAME="sdb" KNAME="sdb" PKNAME="" TYPE="disk" ROTA="1" MODEL="Slow; cheap=1"
NAME="md0" KNAME="md0" PKNAME="sda" TYPE="raid1" ROTA="1" MODEL=""
NAME="md0" KNAME="md0" PKNAME="sdb" TYPE="raid1" ROTA="1" MODEL=""
NAME="vda" KNAME="vda" PKNAME="" TYPE="disk" ROTA="1" MODEL=""
NAME="vg-a" KNAME="dm-0" PKNAME="vda" TYPE="lvm" ROTA="1" MODEL=""
""".lstrip()


class _Host:
    """A host that gives the same answer to every command, and counts them."""

    host = "fs1"

    def __init__(self, stdout: str) -> None:
        self.stdout = stdout
        self.queries = 0

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        self.queries += 1
        return CommandResult(tuple(argv), 0, self.stdout, "")


def items(stdout: str, *paths: str, prefixes: Sequence[str] = ()) -> dict[str, str]:
    host = _Host(stdout)
    state = host_state(cast("Connector", host), paths, prefixes)
    assert (state.host, host.queries) == ("fs1", 1)
    return dict(state.items)


def test_kernel_settings_and_disks_are_read_by_one_command() -> None:
    result = items(f"{SETTINGS}=\n{MOUNTS}=\n{DISKS}", "/var/cache/open afs", prefixes=["/vicep"])
    assert result == {
        "kernel": "6.1.0-28-amd64",
        "net.core.rmem_max": "212992",
        "vm.dirty_ratio": "20",
        "/vicepa": "xfs on lvm on a disk of no known model (rotating)",
        "/vicepb": "ext4 on raid1 on Fast SSD (not rotating) and Slow cheap 1 (rotating)",
        "/vicepc": "tmpfs",
        "/var/cache/open afs": "ext4 on Fast SSD (not rotating)",
    }


def test_a_path_that_is_no_mount_point_is_in_the_file_system_around_it() -> None:
    result = items(f"{SETTINGS}=\n{MOUNTS}=\n{DISKS}", "/srv/cache")
    assert result["/srv/cache"] == "ext4 on Fast SSD (not rotating)"
    assert "/srv/cache-old" not in result


def test_partitions_that_are_no_mount_points_are_in_the_file_system_around_them() -> None:
    result = items(f"{SETTINGS}=\n/dev/sda2 / ext4 rw 0 0\n=\n{DISKS}", prefixes=["/vicep"])
    assert result["/vicep"] == "ext4 on Fast SSD (not rotating)"


@pytest.mark.parametrize("stdout", ["", "=\n=\n", "=", "nonsense\n=\nx\n=\ny", "=\n \n=\nNAME="])
def test_what_a_host_does_not_tell_is_left_out(stdout: str) -> None:
    assert items(stdout, "/var/cache", prefixes=["/vicep"]) == {}


def test_this_machine_tells_its_kernel_and_its_root() -> None:
    state = host_state(LocalConnector(), ["/"])
    result = dict(state.items)
    assert result["kernel"]
    assert all(" = " in text and ";" not in text for text in state.text())
    assert host_state(LocalConnector(), ["/"]) == state
