"""The private cell as a testbed: brought up for a campaign and taken down after it.

Owns the translation between a campaign and ``deploy.cell``: the one place where the cell's errors
become ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.cell import Cell, CellError, Cells, CellSpec
from deploy.cell.client import CACHE_DIRECTORY, MOUNT_POINT, VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED
from tuner.errors import TestbedError
from tuner.hosts.node import NodeConnector
from tuner.measure.workload import Workload
from tuner.services.openafs.assembly import ClientHost, Layout, Wanted, assemble
from tuner.services.openafs.fileserver import FileserverPlace
from tuner.services.openafs.fuse import FusePlace
from tuner.services.testbed import Bench

#: Where the nodes keep what is needed to put them back.
RESTORE = f"{SHARED}/restore"
FUSE_PLACE = FusePlace(MOUNT_POINT, CACHE_DIRECTORY, VOLUME_PATH, RESTORE)
LAYOUT = Layout(
    directory=SHARED,
    path=VOLUME_PATH,
    server=FileserverPlace(SERVER_ADDRESS, RESTORE),
    page_cache="not controllable: the volumes are in memory",
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the private cell's errors into ours."""
    try:
        yield
    except CellError as problem:
        raise TestbedError(str(problem)) from problem


class CellTestbed:
    """A private cell. One that was up already stays up; one that ``open`` brought up is taken down.

    ``owned``: the cell was brought up by an earlier run of the same campaign, so it is taken down
    too.
    """

    clock = staticmethod(time.monotonic)

    def __init__(
        self,
        state_directory: Path,
        spec: CellSpec,
        wanted: Wanted,
        *,
        owned: bool = False,
    ) -> None:
        with translated():
            self._cells = Cells(state_directory)
        self._spec = spec
        self._wanted = wanted
        self._stack = ExitStack()
        self._owned = owned

    def claim(self, campaign: str) -> bool:
        """See Testbed.claim."""
        with translated():
            existing = self._cells.load(self._spec.name)
        self._owned = self._owned or existing is None or not existing.is_alive()
        return self._owned

    def unavailable(self) -> str | None:
        """See Testbed.unavailable."""
        return None

    def open(self, workload: Workload, say: Callable[[str], None]) -> Bench:
        """See Testbed.open."""
        with translated():
            self._stack.enter_context(self._cells.use(self._spec.name))
            cell = self._cells.up(self._spec, say)
        return self._bench(cell, workload)

    def close(self) -> str | None:
        """See Testbed.close."""
        self._stack.close()
        if not self._owned:
            return None
        with translated():
            existed = self._cells.down(self._spec.name)
        return f"private cell {self._spec.name} taken down" if existed else None

    def _bench(self, cell: Cell, workload: Workload) -> Bench:
        server = NodeConnector(cell.server)
        clients = [ClientHost(NodeConnector(node), FUSE_PLACE) for node in cell.clients]
        return assemble(server, clients, LAYOUT, self._wanted, workload)
