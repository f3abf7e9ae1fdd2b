"""Which file of tests a test process runs next.

Tests of a cell mostly wait for its programs, most others compute. While some processes wait, others
should compute: so tests of cells never take all processes as long as there are other tests.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

#: Folders whose tests mostly wait.
_CELLS = ("tests/acceptance/", "tests/integration/")
#: Folders of files that share a cell, so that one process has to run them all.
_TOGETHER = ("tests/integration/ssh/",)
#: As many processes run tests of cells at once; fewer leave processors idle.
MOST = 4


def of_cell(scope: str) -> bool:
    """Return whether the tests of a file or folder mostly wait for a cell."""
    return scope.startswith(_CELLS)


def next_scope(waiting: Iterable[str], others: int) -> str:
    """Choose what a process runs next.

    Args:
        waiting: Files and folders that no process has yet, in their order; at least one.
        others: How many other processes have tests of cells to run.
    """
    scopes = list(waiting)
    cell = others < MOST
    return next((scope for scope in scopes if of_cell(scope) is cell), scopes[0])


class Mixed(LoadFileScheduling):  # type: ignore[misc]
    """Distributes files so that those of cells run beside those that compute."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in _TOGETHER if file.startswith(folder)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        others = sum(
            any(of_cell(scope) and not all(tests.values()) for scope, tests in work.items())
            for other, work in self.assigned_work.items()
            if other is not node
        )
        self.workqueue.move_to_end(next_scope(self.workqueue, others), last=False)
        super()._assign_work_unit(node)
