"""Attack: a local user of a client names one of their processes afsd.fuse."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from deploy.cell import Cell, Node
from deploy.cell.client import CACHE_DIRECTORY, MOUNT_POINT, VOLUME_PATH
from tests.security.local_users import OPTIONS, UID, called, decoy, of_root, trap
from tests.waiting import wait_for
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.node import NodeConnector
from tuner.services.openafs.fuse import FuseClient, FusePlace

pytestmark = pytest.mark.cell

BLOCKS = ("-blocks", "150000")


@pytest.fixture
def node(cell: Cell) -> Iterator[Node]:
    """The client's node; checks afterwards that its cache manager is unchanged."""
    node = cell.clients[0]
    before = of_root(node, "afsd.fuse")
    yield node
    assert of_root(node, "afsd.fuse") == before


@pytest.fixture
def place(node: Node) -> Iterator[FusePlace]:
    directory = "/fstune/decoys"
    yield FusePlace(MOUNT_POINT, CACHE_DIRECTORY, VOLUME_PATH, directory)
    node.run(["rm", "--recursive", "--force", directory])


def test_a_process_of_a_local_user_is_not_taken_for_the_cache_manager(
    node: Node, place: FusePlace
) -> None:
    """Nothing that it shows is believed, and its program is never run as root."""
    (original,) = of_root(node, "afsd.fuse")
    with trap(node) as (program, proof), decoy(node, (program, *OPTIONS, "-blocks", "99999")):
        client = FuseClient.attach(NodeConnector(node), place)
        try:
            client.start((*OPTIONS, *BLOCKS))
        finally:
            client.restore()
        assert not proof.exists()
        assert client.options == original
        assert client.program == "/usr/sbin/afsd.fuse"


def test_a_decoy_alone_is_named_and_refused(node: Node, place: FusePlace) -> None:
    host = NodeConnector(node)
    client = FuseClient.attach(host, place)
    client.start((*OPTIONS, *BLOCKS))  # so that there is a journal to restore from
    other = FusePlace(place.mount, place.cache, place.probe, f"{place.directory}/other")
    try:
        node.check(["umount", MOUNT_POINT])
        with (
            trap(node) as (program, proof),
            decoy(node, (program, *OPTIONS)) as pid,
            pytest.raises(TestbedError, match=f"process {pid} is of user {UID}, not of root"),
        ):
            FuseClient.attach(host, other).start(OPTIONS)
        assert not proof.exists()
    finally:
        client.restore()


def test_a_decoy_is_not_taken_for_the_restored_cache_manager(node: Node, place: FusePlace) -> None:
    (original,) = of_root(node, "afsd.fuse")
    client = FuseClient.attach(NodeConnector(node), place)
    client.start((*OPTIONS, *BLOCKS))
    with decoy(node, client.command):
        message = client.restore()
        assert of_root(node, "afsd.fuse") == [original]
    assert "mounted again as found" in message


def test_a_journal_stays_when_more_than_one_daemon_is_left(node: Node, place: FusePlace) -> None:
    """The second belongs to root and does not end, so it is unknown which of them serves."""
    client = FuseClient.attach(NodeConnector(node), place)
    client.start((*OPTIONS, *BLOCKS))
    journal = node.shared / "decoys" / "cache_manager"
    remount = journal / "fuse-remount.sh"
    sums = journal / "sums"
    whole, original_sums = remount.read_text(), sums.read_text()
    # Python in a file of that name: its executable has to have the name, too.
    node.check(["cp", "--dereference", "/usr/bin/python3", "/tmp/afsd.fuse"])
    with decoy(node, ("/usr/sbin/afsd.fuse", *OPTIONS), user=0, python="/tmp/afsd.fuse"):
        # As if it were stuck in the kernel: the script cannot end it, but continues.
        remount.write_text("exit 0\n")
        node.check(["sh", "-c", "cd /fstune/decoys/cache_manager && sed -i /fuse-remount/d sums &&"
                    " sha256sum fuse-remount.sh >> sums && sort -k 2 -o sums sums"])  # fmt: skip
        with pytest.raises(TestbedError, match=r"more than one afsd\.fuse of root serves /afs"):
            client.restore()
        assert journal.exists()
    node.check(["rm", "/tmp/afsd.fuse"])
    remount.write_text(whole)
    sums.write_text(original_sums)
    client.restore()
    assert not journal.exists()


def test_a_decoy_is_not_queried_instead_of_the_cache_manager(node: Node, place: FusePlace) -> None:
    """Nor does it hide that a mount has ended."""
    client = FuseClient.attach(NodeConnector(node), place)
    try:
        client.start((*OPTIONS, *BLOCKS))
        with decoy(node, (client.program, *OPTIONS)):
            assert client.effective()["cmdebug.cache_size_kib"] == 150000
            client.start((*OPTIONS, "-blocks", "160000"))
            assert client.effective()["cmdebug.cache_size_kib"] == 160000
            node.check(["umount", MOUNT_POINT])
            with pytest.raises(ConfigurationError, match="is no longer running"):
                client.effective()
    finally:
        client.restore()


def test_a_program_that_runs_as_root_for_its_users_is_not_the_cache_manager(
    node: Node, place: FusePlace
) -> None:
    """Users may call sudo by any name and with any arguments, and keep it waiting: here, sleep of
    root stands for it. It neither prevents the client from being restored, nor is it started again.
    """
    (original,) = of_root(node, "afsd.fuse")
    genuine = called(node, "afsd.fuse")
    directory = f"/tmp/called-{time.monotonic_ns()}"
    node.check(["mkdir", directory])
    node.check(["ln", "--symbolic", "/usr/bin/sleep", f"{directory}/afsd.fuse"])
    process = subprocess.Popen(node.enter([f"{directory}/afsd.fuse", "300"]))
    try:
        wait_for(lambda: len(called(node, "afsd.fuse")) == 2, "the decoy")
        (pid,) = called(node, "afsd.fuse") - genuine
        client = FuseClient.attach(NodeConnector(node), place)
        client.start((*OPTIONS, *BLOCKS))
        assert "mounted again as found" in client.restore()
        assert client.options == original
        node.check(["kill", "-KILL", str(pid)])  # it was left alone
        wait_for(lambda: pid not in called(node, "afsd.fuse"), "the decoy's end")
    finally:
        process.kill()
        process.wait()
        node.run(["rm", "--recursive", directory])
