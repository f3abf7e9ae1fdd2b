"""A private OpenAFS cell on this machine, in its own namespaces."""

from deploy.cell.cell import Cell, Cells, CellSpec
from deploy.cell.errors import CellError, CellSpecError
from deploy.cell.machine import require_machine
from deploy.cell.node import Node, NodeAdditions, RawResult

__all__ = [
    "Cell",
    "CellError",
    "CellSpec",
    "CellSpecError",
    "Cells",
    "Node",
    "NodeAdditions",
    "RawResult",
    "require_machine",
]
