"""Nodes of private cells, as hosts of a testbed file and as gateways to other hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.cell import CellError, Cells, CellSpecError, Node
from deploy.cell.ssh import connect_from
from tuner.errors import SpecError, TestbedError
from tuner.hosts.reach import NetnsSection

if TYPE_CHECKING:
    from tuner.hosts.link import OpenSocket


@contextmanager
def translate_errors() -> Iterator[None]:
    """Convert errors of the private cell to SpecError or TestbedError."""
    try:
        yield
    except CellSpecError as problem:
        raise SpecError(str(problem)) from problem
    except CellError as problem:
        raise TestbedError(str(problem)) from problem


def node(state_directory: Path, section: NetnsSection) -> Node:
    """Return a node. Raises TestbedError when it is not up."""
    with translate_errors():
        cell = Cells(state_directory).load(section.cell)
    nodes = {} if cell is None else {one.name: one for one in cell.nodes}
    if section.node not in nodes:
        raise TestbedError(
            f"no node {section.node!r} of a private cell {section.cell!r} is up; "
            "see 'fstune cell status'"
        )
    return nodes[section.node]


def from_node(state_directory: Path, section: NetnsSection) -> OpenSocket:
    """Return a function that connects from a node's network.

    The node is looked up for each connection.
    """

    def connect(address: str, port: int, timeout_s: float) -> socket.socket:
        return connect_from(node(state_directory, section), address, port, timeout_s)

    return connect


@contextmanager
def keep_up(state_directory: Path, cells: Sequence[str]) -> Iterator[None]:
    """Prevent these cells from being taken down meanwhile.

    The use is shared, since each host in a cell has its own lock. Raises TestbedError for a cell
    that a campaign uses exclusively.
    """
    with translate_errors(), ExitStack() as stack:
        for name in cells:
            stack.enter_context(Cells(state_directory).use(name, shared=True))
        yield
