"""Attack: a host is restored manually at any moment of a remount, however long that takes.

``FSTUNE_RACES`` is the number of repetitions (8); 200 were run once, see docs/security.md.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.cell import Cell, Node
from deploy.cell.client import CACHE_DIRECTORY, MOUNT_POINT, VOLUME_PATH
from tests.security.local_users import OPTIONS, of_root
from tests.waiting import wait_for
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.node import NodeConnector
from tuner.services.openafs.fuse import FuseClient, FusePlace
from tuner.services.restoring import restore

pytestmark = pytest.mark.cell

RACES = int(os.environ.get("FSTUNE_RACES", "8"))
DIRECTORY = "/fstune/race"
PLACE = FusePlace(MOUNT_POINT, CACHE_DIRECTORY, VOLUME_PATH, f"{DIRECTORY}/restore")


@pytest.fixture
def node(cell: Cell) -> Iterator[Node]:
    node = cell.clients[0]
    yield node
    list(restore([NodeConnector(node)], DIRECTORY))
    node.run(["rm", "--recursive", "--force", DIRECTORY])


class Tuner(threading.Thread):
    """The part of a campaign on one client, which remounts it until that is refused."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__(daemon=True)
        owner = Owner(f"campaign-{number}", "here")
        self.hold = Hold.take(NodeConnector(node), DIRECTORY, owner, 600.0)
        self.client = FuseClient.attach(self.hold, PLACE)
        self.refused: Exception | None = None
        self.mounts = 0

    def run(self) -> None:
        try:
            while True:
                self.client.start((*OPTIONS, "-blocks", str(150000 + self.mounts % 7)))
                self.mounts += 1
        except (TestbedError, ConfigurationError) as problem:
            self.refused = problem


def daemons(node: Node) -> list[tuple[str, ...]]:
    return of_root(node, "afsd.fuse")


def mounted(node: Node) -> bool:
    return node.run(["stat", VOLUME_PATH], timeout_s=30.0).status == 0


@pytest.mark.timeout(300 + 10 * RACES)
def test_whenever_a_host_is_restored_it_is_as_found(node: Node) -> None:
    (original,) = daemons(node)
    moments = random.Random(20261121)
    journal = node.shared / "race" / "restore" / "cache_manager"
    for number in range(RACES):
        tuner = Tuner(node, number)
        tuner.start()
        wait_for(journal.exists, "the first change")
        time.sleep(moments.uniform(0.0, 1.2))
        messages = list(restore([NodeConnector(node)], DIRECTORY))
        # Immediately, and still after the campaign has ended.
        assert daemons(node) == [original], (number, messages)
        tuner.join(100.0)
        assert not tuner.is_alive()
        assert "has restored itself" in str(tuner.refused), number
        assert daemons(node) == [original], (number, messages)
        assert mounted(node)
        assert messages[0].startswith("cache_manager on client1 "), messages
        assert not journal.exists()
        # No journal and no lease is left.
        assert not list((node.shared / "race" / "restore").glob("*/restore.sh"))
        assert not (node.shared / "race" / "lease").exists()


def test_restoring_waits_for_a_change_that_takes_long(node: Node) -> None:
    """A change of the kernel client may take minutes; restore used to wait only two seconds."""
    owner = Owner("campaign-slow", "here")
    hold = Hold.take(NodeConnector(node), DIRECTORY, owner, 600.0)
    client = FuseClient.attach(hold, PLACE)
    (original,) = daemons(node)
    client.start((*OPTIONS, "-blocks", "150000"))
    (node.shared / "gate").touch()
    late: list[Path] = []

    def change() -> None:
        script = (
            "touch /fstune/begun; while [ -e /fstune/gate ]; do sleep 0.05; done;"
            # What has just been mounted may be busy for a moment.
            " while pidof afsd.fuse > /dev/null; do umount /afs 2> /dev/null; sleep 0.05; done;"
            ' exec "$@" 9<&-'
        )
        argv = ["sh", "-c", script, "sh", client.program, *OPTIONS, "-blocks", "123456"]
        assert hold.change(argv).status == 0
        late.append(node.shared / "begun")

    changing = threading.Thread(target=change, daemon=True)
    changing.start()
    wait_for((node.shared / "begun").exists, "the change")
    messages: list[str] = []
    restoring = threading.Thread(
        target=lambda: messages.extend(restore([NodeConnector(node)], DIRECTORY)),
        daemon=True,
    )
    restoring.start()
    wait_for(lambda: not (node.shared / "race" / "lease").exists(), "its lease to be taken")
    time.sleep(3.0)  # longer than restore used to wait
    assert messages == []
    (node.shared / "gate").unlink()
    restoring.join(100.0)
    changing.join(100.0)
    (node.shared / "begun").unlink()
    assert late
    assert daemons(node) == [original]
    assert messages
    assert "mounted again as found" in messages[0]
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.change(["true"])
