"""A guest is a client host with the kernel client and tokens."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from deploy.cell import kerberos
from deploy.cell.client import MOUNT_POINT, VOLUME_PATH
from deploy.cell.server import VOLUME
from deploy.vm import Guest, seed
from tuner.hosts.connections import Hosts
from tuner.services.openafs import hosts
from tuner.services.openafs.assembly import usual_requirements
from tuner.services.openafs.guest import write_testbed
from tuner.services.openafs.testbed_file import read_testbed

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(3600)]

LOGIN = f"kinit -k -t {seed.KEYTAB} {kerberos.USER} && aklog"


def output(guest: Guest, *argv: str) -> str:
    done = guest.run(argv)
    assert done.status == 0, (argv, done.stderr)
    return done.stdout.decode().strip()


def shell(guest: Guest, script: str) -> str:
    done = guest.run(["sh", "-eu"], input=script.encode(), timeout_s=120.0)
    assert done.status == 0, (script, done.stderr)
    return done.stdout.decode().strip()


def test_a_guest_is_a_client_host_with_the_kernel_client(guest: Guest) -> None:
    modules = output(guest, "cat", "/proc/modules").splitlines()
    assert [line for line in modules if line.startswith("openafs ")]
    mounted = output(guest, "findmnt", "--noheadings", "--output", "FSTYPE", MOUNT_POINT)
    assert mounted == "afs"
    assert output(guest, "systemctl", "is-active", "openafs-client", "ssh") == "active\nactive"
    assert output(guest, "systemctl", "is-system-running") == "running"
    assert output(guest, "cmdebug", "localhost", "-cache")


def test_a_file_written_with_a_token_is_on_the_server(guest: Guest) -> None:
    private = f"{VOLUME_PATH}/private"
    shell(guest, f"{LOGIN}\nmkdir {private}\nfs setacl {private} bench all -clear")
    try:
        shell(guest, f"head -c 300000 /dev/urandom > {private}/file\nunlog\nfs flushall")
        assert guest.run(["cat", f"{private}/file"]).status != 0, "read without a token"
        digest = shell(guest, f"{LOGIN}\nsha256sum < {private}/file")
        assert guest.cell.server.check(["vos", "examine", VOLUME, "-localauth"]), (
            "the server has no volume"
        )
        dump = guest.cell.server.run(["vos", "dump", VOLUME, "-localauth"]).stdout
        content = guest.run(["cat", f"{private}/file"]).stdout
        assert len(content) == 300000
        assert content in dump
        assert digest.split()[0] == hashlib.sha256(content).hexdigest()
    finally:
        shell(guest, f"{LOGIN}\nrm -r {private}\nunlog\nkdestroy -q")


def test_secrets_are_readable_by_root_only(guest: Guest) -> None:
    files = [guest.directory / name for name in ("key", "host_key", "seed.tar")] + [
        kerberos.user_keytab(guest.cell.server)
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(guest.cell_directory.stat().st_mode) == 0o700
    assert output(guest, "stat", "--format=%a", seed.KEYTAB) == "600"
    assert output(guest, "stat", "--format=%a", str(Path(seed.KEYTAB).parent)) == "700"
    assert not (guest.cell.server.shared / "keytab").exists()


def test_the_paths_for_references_exist(guest: Guest) -> None:
    for path, kind in ((seed.NFS_DIRECTORY, "nfs"), (seed.LOCAL_DIRECTORY, "ext4")):
        fstype = output(guest, "findmnt", "--noheadings", "--output", "FSTYPE", "--target", path)
        assert fstype == kind
        shell(guest, f"echo here > {path}/file")
    assert "vers=3" in output(guest, "findmnt", "--noheadings", "-o", "OPTIONS", seed.NFS_DIRECTORY)
    assert guest.cell.server.check(["cat", "/export/file"]) == "here\n"
    shell(guest, f"rm {seed.NFS_DIRECTORY}/file {seed.LOCAL_DIRECTORY}/file")


def test_fstune_reaches_a_guest_as_a_testbed_and_accepts_it(guest: Guest, state: Path) -> None:
    path = write_testbed(guest)
    testbed = read_testbed(path)
    with closing(Hosts(testbed, path.parent, state)) as connections:
        survey = hosts.look(testbed, connections, usual_requirements("afsd"))
    assert not any(finding.refuses for finding in survey.findings)
    assert yaml.safe_load(path.read_text())["clients"][0]["control"] == {"systemd": {}}


def test_up_twice_returns_the_same_guest(guest: Guest, bring_up: Callable[[], Guest]) -> None:
    again = bring_up()
    assert again.process == guest.process
    assert again.cell == guest.cell
