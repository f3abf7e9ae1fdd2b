"""Times short commands in a node of a private cell: by its supervisor and by entering anew; and
three at once, as a fileserver's options are read back, with two supervisors kept and with four.

Run ``python -m bench.own_share.commands`` as root on Debian. Prints the wall time of a command, or
of three at once, in ms, all ways in turn.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from deploy.cell import Cells, CellSpec
from deploy.cell.node import SHARED
from tuner.hosts import node_supervisor
from tuner.hosts.connector import Connector
from tuner.hosts.node import NodeConnector, SerialNode
from tuner.hosts.node_supervisor import NodeSupervisors

_CELL = "commands"
_TURNS, _EACH = 5, 300
_AT_ONCE = 3


def _one(host: Connector) -> None:
    host.ask(["true"])


def _several(host: Connector) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(host.ask, [["true"]] * _AT_ONCE))


def _measure(way: str, host: Connector, work: Callable[[Connector], None]) -> None:
    work(host)
    begin = time.monotonic()
    for _ in range(_EACH):
        work(host)
    print(way, f"{1000.0 * (time.monotonic() - begin) / _EACH:.2f}", flush=True)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        cells = Cells(Path(scratch) / "state")
        try:
            node = cells.up(CellSpec(_CELL, clients=1)).server
            for _ in range(_TURNS):
                _measure("entering", NodeConnector(node), _one)
                with closing(NodeSupervisors(node)) as supervisors:
                    _measure("supervisor", SerialNode(node, supervisors, SHARED), _one)
                for most_idle in (2, 4):
                    node_supervisor.MOST_IDLE = most_idle
                    with closing(NodeSupervisors(node)) as supervisors:
                        _measure(
                            f"{most_idle} kept", SerialNode(node, supervisors, SHARED), _several
                        )
        finally:
            cells.down(_CELL)


if __name__ == "__main__":
    main()
