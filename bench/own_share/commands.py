"""Times a short command in a node of a private cell, by its supervisor and by entering anew.

Run ``python -m bench.own_share.commands`` as root on Debian. Prints the wall and the processor time
of a command in ms, both ways in turn.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from pathlib import Path

from deploy.cell import Cells, CellSpec
from deploy.cell.node import SHARED
from tuner.hosts.connector import Connector
from tuner.hosts.node import NodeConnector, SerialNode
from tuner.hosts.node_supervisor import NodeSupervisor

_CELL = "commands"
_TURNS, _EACH = 5, 300


def _processor_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        cells = Cells(Path(scratch) / "state")
        try:
            node = cells.up(CellSpec(_CELL, clients=1)).server
            for _ in range(_TURNS):
                for way in ("entering", "supervisor"):
                    wall_s, processor_s = time.monotonic(), _processor_s()
                    with closing(NodeSupervisor(node)) as supervisor:
                        host: Connector = NodeConnector(node)
                        if way == "supervisor":
                            host = SerialNode(node, supervisor, SHARED)
                        for _ in range(_EACH):
                            host.ask(["true"])
                    wall_s, processor_s = time.monotonic() - wall_s, _processor_s() - processor_s
                    each_ms = (1000.0 * spent_s / _EACH for spent_s in (wall_s, processor_s))
                    print(way, *(f"{each:.2f}" for each in each_ms), flush=True)
        finally:
            cells.down(_CELL)


if __name__ == "__main__":
    main()
