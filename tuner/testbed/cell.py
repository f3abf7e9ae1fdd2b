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
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED
from search_spaces import Space
from tuner.errors import TestbedError
from tuner.measure.driver import Engine
from tuner.measure.workload import Workload
from tuner.target.openafs.cache_manager import CacheManager
from tuner.target.openafs.fileserver import Fileserver, FileserverPlace
from tuner.target.part import Part
from tuner.target.target import Target
from tuner.testbed.node import NodeConnector
from tuner.testbed.testbed import Bench


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
        fileserver: Space | None,
        cache_manager: Space,
        *,
        owned: bool = False,
    ) -> None:
        with translated():
            self._cells = Cells(state_directory)
        self._spec = spec
        self._spaces = (fileserver, cache_manager)
        self._stack = ExitStack()
        self._owned = owned

    def claim(self) -> bool:
        """See Testbed.claim."""
        with translated():
            existing = self._cells.load(self._spec.name)
        self._owned = self._owned or existing is None or not existing.is_alive()
        return self._owned

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
        client = NodeConnector(cell.clients[0])
        place = FileserverPlace(SERVER_ADDRESS, f"{SHARED}/restore-fileserver.json")
        fileserver, cache_space = self._spaces
        cache = CacheManager.attach(cell.clients, cell.client_options, cache_space)
        parts: dict[str, Part] = {}
        if fileserver is not None:
            parts["fileserver"] = Fileserver.attach(server, place, fileserver)
        parts["cache_manager"] = cache
        engine = Engine.install(client, SHARED, VOLUME_PATH, workload)
        return Bench(Target(parts), engine, cache.make_cold)
