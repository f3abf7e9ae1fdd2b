"""Failures of a real kernel client: each ends in the old configuration, or in a clear error from
which it is possible to continue.
"""

from __future__ import annotations

import pytest

from deploy.cell.client import MOUNT_POINT
from tests.vm.client_host import ClientHost
from tuner.errors import ConfigurationError, TestbedError, TokenError

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(1200)]


def test_a_busy_mount_is_left_unchanged(client: ClientHost) -> None:
    before = client.file(), client.effective()
    with client.holder():
        with pytest.raises(TestbedError, match=r"is in use by: \d+ \(.*sleep.*nothing was stopped"):
            client.unit.start([*client.unit.options, "-chunksize", "16"])
        assert (client.file(), client.effective()) == before


def test_a_second_mount_is_left_unchanged(client: ClientHost) -> None:
    """A second mount would keep the kernel module in use, so that only a reboot would be safe."""
    before = client.file(), client.effective()
    client.output("mkdir", "--parents", "/srv/afs")
    client.output("mount", "--bind", MOUNT_POINT, "/srv/afs")
    try:
        with pytest.raises(TestbedError, match=r"also mounted at /srv/afs.*nothing was stopped"):
            client.unit.start([*client.unit.options, "-chunksize", "16"])
        assert (client.file(), client.effective()) == before
    finally:
        client.output("umount", "/srv/afs")


def test_a_mount_in_a_namespace_that_an_unmount_does_not_reach_is_left_unchanged(
    client: ClientHost,
) -> None:
    """As in a container: it would keep the kernel module in use, like a second mount."""
    before = client.file(), client.effective()
    with client.namespace("private"):
        why = (
            rf"{MOUNT_POINT} is also mounted in the .* of: \d+ \(sleep 600\); .*nothing was stopped"
        )
        with pytest.raises(TestbedError, match=why):
            client.unit.start([*client.unit.options, "-chunksize", "16"])
        assert (client.file(), client.effective()) == before
    client.unit.start([*client.unit.options, "-chunksize", "16"])
    assert client.effective()["cmdebug.chunk_size_bytes"] == 1 << 16


def test_the_namespace_of_a_service_does_not_prevent_a_restart(client: ClientHost) -> None:
    """It receives the unmount, and the new mount."""
    client.output(
        "systemd-run", "--unit=service", "--property=PrivateTmp=yes", "--property=Type=exec",
        "sleep", "600",
    )  # fmt: skip
    try:
        with client.namespace("slave"):
            client.unit.start([*client.unit.options, "-chunksize", "16"])
        assert client.effective()["cmdebug.chunk_size_bytes"] == 1 << 16
        pid = client.output("systemctl", "show", "--property=MainPID", "--value", "service")
        assert " - afs " in client.output("cat", f"/proc/{pid}/mountinfo")
    finally:
        client.run("systemctl", "stop", "service")


def test_changed_options_stay_in_effect_and_in_the_journal_while_the_mount_is_busy(
    client: ClientHost,
) -> None:
    client.unit.start([*client.unit.options, "-chunksize", "16", "-daemons", "3"])
    assert client.effective()["cmdebug.chunk_size_bytes"] == 1 << 16
    assert client.output("findmnt", "--noheadings", "--output", "FSTYPE", MOUNT_POINT) == "afs"
    with client.holder(), pytest.raises(TestbedError, match="is in use by"):
        client.unit.restore()
    assert "cache_manager" in client.journals()
    assert "started again as found" in client.unit.restore()


def test_a_bad_option_fails_and_the_next_start_works(client: ClientHost) -> None:
    with pytest.raises(ConfigurationError, match=r"openafs-client does not start"):
        client.unit.start([*client.unit.options, "-nosuch"])
    assert client.run("mountpoint", "--quiet", MOUNT_POINT).status != 0
    client.unit.start([*client.unit.options, "-chunksize", "17"])
    assert client.effective()["cmdebug.chunk_size_bytes"] == 1 << 17


def test_a_cache_that_shrinks_is_recreated(client: ClientHost) -> None:
    """afsd exits if it is given fewer cache files than there are."""
    options = ["-blocks", "40000", "-files"]
    client.unit.start([*client.unit.options, *options, "6000"])
    assert client.effective()["cmdebug.chunk_files"] == 6000
    client.unit.start([*client.unit.options, *options, "1500"])
    assert client.effective()["cmdebug.chunk_files"] == 1500


def test_a_client_stopped_by_someone_else_is_restored(client: ClientHost) -> None:
    client.unit.start([*client.unit.options, "-chunksize", "16"])
    client.output("systemctl", "stop", client.unit.place.unit)
    with pytest.raises(ConfigurationError, match="the client is gone"):
        client.unit.effective()


def test_a_file_changed_by_someone_else_is_an_error(client: ClientHost) -> None:
    client.unit.start([*client.unit.options, "-chunksize", "16"])
    client.output("sed", "-i", "$ a # by hand", client.unit.place.file)
    with pytest.raises(TestbedError, match="somebody else has changed"):
        client.unit.start([*client.unit.options, "-chunksize", "17"])


def test_a_missing_keytab_has_its_own_error(client: ClientHost) -> None:
    place = client.unit.place.token
    assert place is not None
    client.output("mv", place.keytab, f"{place.keytab}.away")
    try:
        with pytest.raises(TokenError, match=r"no token for bench: kinit: .*[Kk]ey"):
            client.unit.start(client.unit.options)
    finally:
        client.output("mv", f"{place.keytab}.away", place.keytab)
