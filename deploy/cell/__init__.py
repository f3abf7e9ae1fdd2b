"""A private OpenAFS cell on this machine, in namespaces of its own."""

from deploy.cell.cell import Cell, Cells, CellSpec, require_machine
from deploy.cell.errors import CellError
from deploy.cell.node import Completed, Node

__all__ = [
    "Cell",
    "CellError",
    "CellSpec",
    "Cells",
    "Completed",
    "Node",
    "require_machine",
]
