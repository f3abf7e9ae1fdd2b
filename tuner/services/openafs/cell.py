"""The private cell as a testbed: brought up for a campaign and taken down after it.

Responsible for the translation between campaigns and ``deploy.cell``.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from deploy.cell import Cell, Cells, CellSpec, Node
from deploy.cell.client import CACHE_DIRECTORY, INITIAL_BLOCKS, MOUNT_POINT, VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED
from deploy.cell.server import VOLUME
from tuner.hosts.connector import check_change
from tuner.hosts.node import SerialNode
from tuner.hosts.node_supervisor import NodeSupervisors
from tuner.hosts.nodes import translate_errors
from tuner.measure.workload import Workload
from tuner.services.journal import RESTORE_TIMEOUT_S
from tuner.services.openafs.assembly import ClientHost, Layout, Requirements, assemble
from tuner.services.openafs.bosserver import FileserverPlace, check_up
from tuner.services.openafs.fuse import FusePlace
from tuner.services.openafs.testbed_file import TestbedFile
from tuner.services.testbed import ReadyTestbed, Unavailable

#: The initial client settings of a new cell, by qualified name.
INITIAL_SETTINGS = {"cache_manager.blocks": INITIAL_BLOCKS}

#: Volumes of the cell itself, which do not prevent campaigns.
_OTHER_VOLUMES = ("root.afs", "root.cell")
#: Twice the longest change: a restore stops a server that hangs and waits until another answers.
_CHANGE_S = 2.0 * RESTORE_TIMEOUT_S
#: The nodes of a cell restore themselves after this time without contact with fstune.
_RESTORE_AFTER = "60s"
#: Where the nodes keep what is needed to restore them.
RESTORE = f"{SHARED}/restore"
FUSE_PLACE = FusePlace(MOUNT_POINT, CACHE_DIRECTORY, VOLUME_PATH, RESTORE)
LAYOUT = Layout(
    directory=SHARED,
    path=VOLUME_PATH,
    server=FileserverPlace(SERVER_ADDRESS, RESTORE),
    page_cache="not controllable: the volumes are in memory",
    volumes=(VOLUME,),
)


def limits_of_new() -> dict[str, int]:
    """The limits that nodes of a new cell on this machine will have, by their names in spaces."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return {
        "net_core_rmem_max": int(Path("/proc/sys/net/core/rmem_max").read_text()),
        "memory_bytes": memory_bytes,
        "nofile": sys.maxsize if nofile == resource.RLIM_INFINITY else nofile,
        # Known only once the server runs; until then, nothing is refused because of it.
        "fixed_command_length": 0,
        # The kernel's default size of tmpfs, which the nodes use for their file systems.
        "cache_partition_bytes": memory_bytes // 2,
        "cacheinfo_blocks": INITIAL_SETTINGS["cache_manager.blocks"],
    }


def nodes_as_hosts(name: str, clients: int) -> TestbedFile:
    """Describe a running cell as a testbed file, with its nodes as hosts.

    The nodes are then treated like hosts, so that they restore themselves.
    """

    def reach(node: str) -> dict[str, object]:
        return {"netns": {"cell": name, "node": node}}

    fuse = {"fuse": {"mount": MOUNT_POINT, "cache": CACHE_DIRECTORY}}
    nodes = [f"client{number}" for number in range(1, clients + 1)]
    document = {
        "name": f"cell {name}",
        "path": VOLUME_PATH,
        "server": {
            "reach": reach("server"),
            "address": SERVER_ADDRESS,
            "volumes": [VOLUME],
            "other_volumes": _OTHER_VOLUMES,
        },
        "clients": [{"name": node, "reach": reach(node), "control": fuse} for node in nodes],
        "restore": {"directory": SHARED, "after": _RESTORE_AFTER},
    }
    return TestbedFile.model_validate(document)


def is_up(state_directory: Path, name: str) -> bool:
    """Whether a cell of this name is up; then its limits can be read from its nodes."""
    with translate_errors():
        existing = Cells(state_directory).load(name)
    return existing is not None and existing.is_alive()


class CellTestbed:
    """A private cell. It is taken down on close if it is temporary: brought up by this campaign, or
    by one that was killed. Otherwise it stays up.
    """

    clock = staticmethod(time.monotonic)

    def __init__(
        self,
        state_directory: Path,
        spec: CellSpec,
        requirements: Requirements,
    ) -> None:
        with translate_errors():
            self._cells = Cells(state_directory)
        self._spec = spec
        self._requirements = requirements
        self._stack = ExitStack()
        self._owned = False

    def claim(self, campaign: str) -> bool:
        """See Testbed.claim."""
        with translate_errors():
            existing = self._cells.load(self._spec.name)
        self._owned = existing is None or existing.temporary or not existing.is_alive()
        return self._owned

    def unavailable(self) -> Unavailable | None:
        """See Testbed.unavailable."""
        return None

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        """See Testbed.open."""
        with translate_errors():
            self._stack.enter_context(self._cells.use(self._spec.name))
            cell = self._cells.up(self._spec, say, temporary=self._owned)
        return self._assemble(cell, workload)

    def close(self) -> str | None:
        """See Testbed.close."""
        self._stack.close()
        if not self._owned or not self._cells.exists(self._spec.name):
            return None
        with translate_errors():
            was_up = self._cells.down(self._spec.name)
        return f"private cell {self._spec.name} taken down" if was_up else None

    def _assemble(self, cell: Cell, workload: Workload) -> ReadyTestbed:
        server, *clients = map(self._connect, (cell.server, *cell.clients))
        for node in (server, *clients):
            # Wait for a change that is still under way after fstune was killed.
            check_change(node, ["true"], timeout_s=_CHANGE_S)
        check_up(server, LAYOUT.server)
        hosts = [ClientHost(node, FUSE_PLACE) for node in clients]
        return assemble(server, hosts, LAYOUT, self._requirements, workload)

    def _connect(self, node: Node) -> SerialNode:
        return SerialNode(node, self._stack.enter_context(closing(NodeSupervisors(node))), SHARED)
