"""A private OpenAFS cell on this machine, in its own namespaces."""

from deploy.cell.cell import Cell, Cells, CellSpec, require_machine
from deploy.cell.errors import CellError
from deploy.cell.node import Completed, Node, NodeAdditions

__all__ = [
    "Cell",
    "CellError",
    "CellSpec",
    "Cells",
    "Completed",
    "Node",
    "NodeAdditions",
    "require_machine",
]
